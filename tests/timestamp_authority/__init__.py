"""A timestamp authority (RFC 3161) whose tokens OpenSSL signs, so that ours is not on both sides."""
