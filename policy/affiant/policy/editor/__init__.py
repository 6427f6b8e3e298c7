"""What editors need: a JSON Schema, completion, and the text of one rule."""
