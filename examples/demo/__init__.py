"""``make demo``: one attested session, told from outside."""
