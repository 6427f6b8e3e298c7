"""Drafts the least profile for what an agent used."""
