"""The daemon: an agent that stays in a hall, and talks to other programs through files in one folder.

`inbox.py` is shared with every program that stores what its agent hears, such as an MCP server.
"""
