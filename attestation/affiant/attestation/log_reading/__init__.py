"""Reads a transparency log from a folder, over HTTP or from S3, bound to a signed checkpoint."""
