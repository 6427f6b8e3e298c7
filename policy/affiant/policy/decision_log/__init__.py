"""Reads and writes logs of decisions, and replays them against other profiles."""
