"""Finds secret values in streams, in every encoding that is known, and replaces them."""
