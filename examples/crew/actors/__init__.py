"""The parts of the stand-in model: how it reaches its tools, what it knows of the hall, and one role per module."""
