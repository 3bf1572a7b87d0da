"""Catalogs: agent files, rules, tool lists, MCP servers and git trees."""
