"""Parses event logs and replays them into RTMR values."""
