"""`affiant log`, `affiant witness` and `affiant log anchors`: commands around transparency logs."""
