"""Puts an agent where it can reach only its own files and its proxy: gVisor, or bubblewrap."""
