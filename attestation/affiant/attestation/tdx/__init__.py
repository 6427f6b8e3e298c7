"""Intel TDX evidence: parse, verify, appraise. Pure: no clock, no network, no environment.

The call sequence, with the time and the trusted roots as arguments::

    quote = parse_quote(data)
    collateral = verify_collateral(parse_collateral(...), now=now, trust=reference.trust_roots())
    verified = verify_quote(quote, collateral, now=now)
    appraisal = appraise(verified, reference, image="session", mrconfigid=..., report_data=..., log=...)

Each step takes the type that only the step before it makes, and refuses by raising.
"""

from typing import TYPE_CHECKING, Final

from affiant.lazy_names import lazy_names

if TYPE_CHECKING:
    from affiant.attestation.tdx.appraise.appraisal import Appraisal, Tier, appraise
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
    "appraise",
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
    "Appraisal": "affiant.attestation.tdx.appraise.appraisal",
    "Check": "affiant.attestation.tdx.quote.checks",
    "CheckOutcome": "affiant.attestation.tdx.quote.checks",
    "Collateral": "affiant.attestation.tdx.tcb.collateral",
    "Event": "affiant.attestation.tdx.event_log.eventlog",
    "EventLog": "affiant.attestation.tdx.event_log.eventlog",
    "EvidenceClass": "affiant.attestation.tdx.pki.roots",
    "ImageRole": "affiant.attestation.tdx.appraise.reference",
    "LoggedEvent": "affiant.attestation.tdx.event_log.eventlog",
    "ReferenceValues": "affiant.attestation.tdx.appraise.reference",
    "SESSION_EVENT_ORDER": "affiant.attestation.tdx.event_log.eventlog",
    "TCBStatuses": "affiant.attestation.tdx.verify.verify",
    "TDQuote": "affiant.attestation.tdx.quote.quote",
    "TDReport": "affiant.attestation.tdx.quote.quote",
    "Tier": "affiant.attestation.tdx.appraise.appraisal",
    "TrustRoots": "affiant.attestation.tdx.pki.roots",
    "VerificationCache": "affiant.attestation.tdx.verify.cache",
    "VerifiedCollateral": "affiant.attestation.tdx.tcb.collateral_verification",
    "VerifiedQuote": "affiant.attestation.tdx.verify.verify",
    "appraise": "affiant.attestation.tdx.appraise.appraisal",
    "event_digest": "affiant.attestation.tdx.event_log.eventlog",
    "parse_collateral": "affiant.attestation.tdx.tcb.collateral",
    "parse_event_log": "affiant.attestation.tdx.event_log.eventlog",
    "parse_quote": "affiant.attestation.tdx.quote.quote",
    "parse_reference_values": "affiant.attestation.tdx.appraise.reference",
    "replay": "affiant.attestation.tdx.event_log.eventlog",
    "verify_collateral": "affiant.attestation.tdx.tcb.collateral_verification",
    "verify_quote": "affiant.attestation.tdx.verify.verify",
}
__getattr__ = lazy_names(__name__, _PUBLIC)
