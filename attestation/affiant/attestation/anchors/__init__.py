"""Anchors checkpoints in time, by timestamp authorities and by sigstore."""
