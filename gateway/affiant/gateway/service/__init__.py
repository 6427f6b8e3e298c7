"""The gateway as one object: boot, control plane, recovery."""
