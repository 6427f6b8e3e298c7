"""Approvals: the exact action, the prompt that shows it, and the queue that lets it happen once. No I/O, no clock."""
