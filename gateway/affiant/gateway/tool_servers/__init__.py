"""Connections to MCP servers: HTTP, and programs with stdio."""
