"""The normative table of record kinds, and the shapes that every member of a record must have."""
