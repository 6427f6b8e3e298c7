"""Builds and checks prepared environments for ``--runtime``."""
