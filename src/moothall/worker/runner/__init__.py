"""The runner: one session of an agent, from the prompt to the exit code."""
