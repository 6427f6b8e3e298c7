"""Parses, verifies and appraises Intel TDX evidence. Pure: no clock, no network, no environment.

The call sequence, with the time and the trusted roots as arguments::

    quote = parse_quote(data)
    collateral = verify_collateral(parse_collateral(...), now=now, trust=reference.trust_roots())
    verified = verify_quote(quote, collateral, now=now)
    appraisal = appraise(verified, reference, image="session", mrconfigid=..., report_data=..., log=...)

Each step takes the type that only the step before it makes, and rejects by raising.
"""
