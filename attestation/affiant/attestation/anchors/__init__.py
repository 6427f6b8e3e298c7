"""Anchors: what says when a checkpoint existed, by somebody who neither keeps the log nor watches it."""
