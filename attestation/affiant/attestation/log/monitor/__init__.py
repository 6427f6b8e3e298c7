"""A monitor of transparency logs: it checks that a log only grows and shows every reader the same."""
