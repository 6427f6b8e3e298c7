"""Encodes and decodes bytes and text in one accepted form: canonical JSON, strict YAML, base64url, JWS, keys and
Merkle trees.
"""
