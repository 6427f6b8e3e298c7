"""Holds actions that need approval: the exact action, the prompt that shows it, and the queue that releases it once."""
