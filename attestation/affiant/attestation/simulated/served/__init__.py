"""Serves the simulated platform over Unix sockets, and asks it."""
