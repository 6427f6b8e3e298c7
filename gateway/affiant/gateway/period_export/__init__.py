"""``affiant bundle export``: a period bundle from a gateway's store, while the gateway may be running."""
