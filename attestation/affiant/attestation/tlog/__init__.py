"""The transparency log: an RFC 9162 tree in C2SP form. Pure; whoever stores, serves or asks stands elsewhere."""
