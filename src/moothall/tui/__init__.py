"""The terminal client for people: `moothall chat`."""
