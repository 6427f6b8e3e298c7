"""Sessions over HTTP: ``affiant session serve``."""
