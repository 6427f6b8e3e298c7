"""What waits for approval at this gateway: the mailbox, and the tool calls that it lets through itself."""
