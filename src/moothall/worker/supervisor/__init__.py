"""The supervisor: one process for each agent that starts the runner, waits for its end and starts it again."""
