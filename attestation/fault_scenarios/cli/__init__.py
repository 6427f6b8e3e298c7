"""`affiant platform evidence` and `scenarios`, as they are in a source tree."""
