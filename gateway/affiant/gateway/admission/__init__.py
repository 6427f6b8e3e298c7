"""Appraises session evidence, admits, restricts and closes sessions."""
