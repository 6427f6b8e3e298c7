"""The gateway's transparency log: leaves, checkpoints, witnesses, anchors, mirror."""
