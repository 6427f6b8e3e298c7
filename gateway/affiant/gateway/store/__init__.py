"""The journal, which is the truth, and the SQLite index that can be rebuilt from it."""
