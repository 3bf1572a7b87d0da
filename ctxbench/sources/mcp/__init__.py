"""MCP servers as a source of tools: their configuration files, and what they list when asked."""
