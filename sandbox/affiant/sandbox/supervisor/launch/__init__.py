"""What the supervisor is given and what it starts: provision, children, the sandbox's plan."""
