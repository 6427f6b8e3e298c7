"""``affiant quote``: TDX quotes for people. Files in, tables and documents out; what holds is `tdx`'s to say."""
