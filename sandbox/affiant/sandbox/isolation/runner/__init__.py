"""The privileged runner: starts and stops the sandbox, and enforces its limits."""
