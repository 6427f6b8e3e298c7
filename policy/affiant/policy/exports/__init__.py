"""A profile as the configuration of another tool, and what that tool cannot say of it."""
