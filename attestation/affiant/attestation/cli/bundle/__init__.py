"""`affiant verify`, `affiant bundle show`, `affiant reconcile` and `affiant receipts`."""
