"""Renders the review page that `affiant policy report` writes."""
