"""Approvals: the exact action, the card that shows it, and the desk that lets it happen once. No I/O, no clock."""
