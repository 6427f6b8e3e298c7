"""Decides one request: allow, ask or deny, with the rule that decided. Pure."""
