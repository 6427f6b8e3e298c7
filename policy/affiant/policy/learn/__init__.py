"""Drafts the least profile for what an agent was seen to use."""
