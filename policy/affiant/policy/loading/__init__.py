"""Loads profile files: strict YAML to a policy, or an error with line and column."""
