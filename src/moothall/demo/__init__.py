"""A hall with six scripted agents, for people who want to see one before they build anything: `moothall demo`."""
