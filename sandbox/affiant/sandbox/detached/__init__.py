"""Sessions that outlive the command that created them: each is held by a session host, a process of its own."""
