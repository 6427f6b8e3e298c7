"""Supervisors that wait for sessions of one kind, and how a launcher takes one."""
