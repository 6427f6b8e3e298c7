"""Options that commands of several packages share."""
