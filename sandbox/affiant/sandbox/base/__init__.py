"""Descriptors, privileges and errors that every part of the sandbox shares."""
