"""Runs tests of profiles, and measures them by coverage and mutation."""
