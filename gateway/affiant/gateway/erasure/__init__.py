"""Carries out orders of erasure, pruning and retention."""
