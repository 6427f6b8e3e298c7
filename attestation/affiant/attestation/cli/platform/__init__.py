"""`affiant platform` and `affiant hold`."""
