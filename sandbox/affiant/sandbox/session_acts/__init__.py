"""The caller's side of what an open session does for it: files and ports."""
