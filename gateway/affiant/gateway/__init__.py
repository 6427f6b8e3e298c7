"""Composes: the HTTP service, admission, upstreams, receipts at the moment they happen."""
