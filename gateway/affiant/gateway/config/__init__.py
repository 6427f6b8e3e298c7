"""The gateway's configuration, which its TD is launched for, and its keyset."""
