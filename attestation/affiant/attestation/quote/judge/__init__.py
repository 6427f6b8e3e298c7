"""Reads the files of `affiant quote verify` and makes one verdict of a quote."""
