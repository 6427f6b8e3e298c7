"""The result of `affiant reconcile` as text, CSV and one document."""
