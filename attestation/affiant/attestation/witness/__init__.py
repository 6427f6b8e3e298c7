"""A witness of transparency logs (C2SP tlog-witness): cosigns what grows from what it has seen, and nothing else."""
