"""Simulates a TDX platform in software, for machines without TDX. Its quotes have the real structure and never count
as hardware.

The pure half (``platform`` and what it stands on) takes keys, time and randomness as arguments; the process
half (``server``, ``client``, ``store``, ``commands``) puts it behind a Unix socket of its own.
Nothing is imported here: the release manifest is made from ``boot`` before any dependency is installed.
"""
