"""A software TDX platform, for machines without TDX: structurally real quotes that never count as hardware.

The pure half (:mod:`.platform` and what it stands on) takes keys, time and randomness as arguments; the process
half (:mod:`.server`, :mod:`.client`, :mod:`.store`, :mod:`.commands`) puts it behind a Unix socket of its own.
Nothing is imported here: the release manifest is made from :mod:`.boot` before any dependency is installed.
"""
