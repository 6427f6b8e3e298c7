"""Measures this installation: which files each image consists of, and what a TD that runs it measures."""
