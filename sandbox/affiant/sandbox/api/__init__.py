"""The Python interface: a sandbox that takes many commands."""
