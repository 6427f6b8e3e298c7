"""The scenarios, by what each one makes wrong."""
