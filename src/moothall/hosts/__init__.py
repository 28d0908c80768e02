"""Programs that run MCP servers for a model, and the files in which they list them. Pure: text in, text out."""
