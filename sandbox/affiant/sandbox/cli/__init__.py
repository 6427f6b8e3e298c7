"""`affiant run` and `affiant session`."""
