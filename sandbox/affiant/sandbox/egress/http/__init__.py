"""Parses what the agent sends: TLS client hello, request heads, bodies. Hostile input."""
