"""The supervisor's half of the broker's protocol."""
