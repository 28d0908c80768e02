"""Agents as processes: the supervisor restarts the runner, and the runner starts a model under the guard."""
