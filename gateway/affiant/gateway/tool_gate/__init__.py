"""`POST /mcp`: judges, approves, calls and records tool calls."""
