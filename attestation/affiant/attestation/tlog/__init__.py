"""Reads and writes the transparency log's formats (C2SP tlog-tiles, checkpoints, signed notes) and RFC 9162 proofs.
Pure.
"""
