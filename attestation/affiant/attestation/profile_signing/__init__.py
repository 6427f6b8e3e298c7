"""Signatures over files of permission profiles: what is signed, by whom, and who is believed."""
