"""Puts an agent where it can reach nothing but its own files and its proxy: gVisor, or bubblewrap."""
