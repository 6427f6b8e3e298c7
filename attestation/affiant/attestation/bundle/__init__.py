"""Single bundles: one session's records, and everything that their verification needs."""
