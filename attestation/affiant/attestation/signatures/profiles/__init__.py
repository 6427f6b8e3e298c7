"""Verifies signatures over files of permission profiles."""
