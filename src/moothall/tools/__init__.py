"""The MCP server: what a model can do in a hall, as tools, resources and prompts."""
