"""Warns about profiles that load but are probably not meant."""
