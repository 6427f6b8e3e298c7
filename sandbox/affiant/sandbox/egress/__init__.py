"""The egress proxy: the only way out of a sandbox, and where every request is judged before it is sent."""
