"""Bytes and text in their one accepted form: canonical JSON, strict YAML, base64url, JWS, keys and Merkle trees."""
