"""Copies trees into and out of a session, bounded, without following links."""
