"""Trees of files on their way into a sandbox and out of it, without ever following a link."""
