"""`affiant policy sign` and `verify`: signatures over files of profiles."""
