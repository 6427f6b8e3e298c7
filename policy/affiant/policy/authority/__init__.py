"""Computes all that an agent may do, and which agents may do one thing: `can` and `who-can`."""
