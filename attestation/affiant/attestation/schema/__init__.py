"""Defines the normative table of record kinds, and the shape of every member of a record."""
