"""Parses, verifies and appraises Intel TDX evidence. Pure: no clock, no network, no environment.

The call sequence, with the time and the trusted roots as arguments::

    quote = parse_quote(data)
    collateral = verify_collateral(parse_collateral(...), now=now, trust=reference.trust_roots())
    verified = verify_quote(quote, collateral, now=now)
    appraisal = appraise(verified, reference, image="session", mrconfigid=..., report_data=..., log=...)

Each step takes the type that only the step before it makes, and rejects by raising. ``appraise`` is in
``tdx.appraise.appraisal``: here its name is that of the folder.
"""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.appraisal import Appraisal, Tier
    from affiant.attestation.tdx.appraise.reference import ImageRole, ReferenceValues, parse_reference_values
    from affiant.attestation.tdx.event_log.eventlog import (
        SESSION_EVENT_ORDER,
        Event,
        EventLog,
        LoggedEvent,
        event_digest,
        parse_event_log,
        replay,
    )
    from affiant.attestation.tdx.pki.roots import EvidenceClass, TrustRoots
    from affiant.attestation.tdx.quote.checks import Check, CheckOutcome
    from affiant.attestation.tdx.quote.quote import TDQuote, TDReport, parse_quote
    from affiant.attestation.tdx.tcb.collateral import Collateral, parse_collateral
    from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral, verify_collateral
    from affiant.attestation.tdx.verify.cache import VerificationCache
    from affiant.attestation.tdx.verify.verify import TCBStatuses, VerifiedQuote, verify_quote

__all__ = [
    "SESSION_EVENT_ORDER",
    "Appraisal",
    "Check",
    "CheckOutcome",
    "Collateral",
    "Event",
    "EventLog",
    "EvidenceClass",
    "ImageRole",
    "LoggedEvent",
    "ReferenceValues",
    "TCBStatuses",
    "TDQuote",
    "TDReport",
    "Tier",
    "TrustRoots",
    "VerificationCache",
    "VerifiedCollateral",
    "VerifiedQuote",
    "event_digest",
    "parse_collateral",
    "parse_event_log",
    "parse_quote",
    "parse_reference_values",
    "replay",
    "verify_collateral",
    "verify_quote",
]

_PUBLIC: Final = {
    name: f"affiant.attestation.tdx.{module}"
    for module, names in {
        "appraise.appraisal": ("Appraisal", "Tier"),
        "appraise.reference": ("ImageRole", "ReferenceValues", "parse_reference_values"),
        "event_log.eventlog": (
            "SESSION_EVENT_ORDER",
            "Event",
            "EventLog",
            "LoggedEvent",
            "event_digest",
            "parse_event_log",
            "replay",
        ),
        "pki.roots": ("EvidenceClass", "TrustRoots"),
        "quote.checks": ("Check", "CheckOutcome"),
        "quote.quote": ("TDQuote", "TDReport", "parse_quote"),
        "tcb.collateral": ("Collateral", "parse_collateral"),
        "tcb.collateral_verification": ("VerifiedCollateral", "verify_collateral"),
        "verify.cache": ("VerificationCache",),
        "verify.verify": ("TCBStatuses", "VerifiedQuote", "verify_quote"),
    }.items()
    for name in names
}
__getattr__ = lazy_names(__name__, _PUBLIC)
