"""Names, hosts, paths and targets in their canonical form, and strict YAML with line numbers."""
