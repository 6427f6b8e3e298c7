"""Which receipts rest on what has since been broken: ``affiant receipts``."""
