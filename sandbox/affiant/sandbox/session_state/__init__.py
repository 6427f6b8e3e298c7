"""What a state folder keeps of sessions, and how an interrupted one is recovered."""
