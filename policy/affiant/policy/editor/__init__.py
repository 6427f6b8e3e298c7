"""Helps editors and shells: a JSON Schema, completion, and the text of one rule."""
