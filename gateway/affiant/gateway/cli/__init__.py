"""`affiant gateway` and `affiant approvals`."""
