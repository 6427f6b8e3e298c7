"""Time: every dated part past its end, and before its beginning; and collateral that steps back."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.pki import CertificateForm
from affiant.attestation.simulated.platform.platform import COLLATERAL_LIFETIME, CollateralPart
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    bench,
    certificates,
    each,
    qe_identity,
    quoted_certificates,
    shifted,
    tcb_info,
)
from fault_scenarios.scenario import Accepted, Refused, Scenario

__all__ = ["SCENARIOS"]

_PARTS: Final = {
    CollateralPart.TCB_INFO: ("TCB Info", "collateral", (19,)),
    CollateralPart.QE_IDENTITY: ("QE Identity", "collateral", (20,)),
    CollateralPart.ROOT_CRL: ("The root's revocation list", "crl", (11,)),
    CollateralPart.PCK_CRL: ("The PCK revocation list", "crl", (12,)),
}
_EXPIRED: Final = CertificateForm(shift=timedelta(days=-365 * 32))
_LATER: Final = CertificateForm(shift=timedelta(days=1))
_CERTIFICATES: Final = {
    "root": ("root", "The root's certificate", (6,)),
    "pck_issuer": ("pck-authority", "The PCK authority's certificate", (7,)),
    "tcb_signing": ("tcb-signer", "The certificate of the documents' signer", (16,)),
}
_IN_QUOTE: Final = {
    "root": ("quoted-root", "The root's certificate in the quote alone", (6,)),
    "pck_issuer": ("quoted-pck-authority", "The PCK authority's certificate in the quote alone", (7,)),
    "pck": ("pck", "The PCK certificate", (8,)),
}


def _older_evaluation(it: Bench) -> Bench:
    """The reader remembers both documents of evaluation 2, of the same day; what comes is of evaluation 1."""
    newer = each(tcb_info(evaluation_number=2), qe_identity(evaluation_number=2))(it).platform
    return replace(it, remembered=timedelta(), newer=newer)


SCENARIOS: Final = (
    *(
        Scenario(
            f"{part.value}-expired",
            f"{title} has expired.",
            points,
            Refused(f"{family}.expired", Stage.COLLATERAL),
            shifted(part, -31),
        )
        for part, (title, family, points) in _PARTS.items()
    ),
    *(
        Scenario(
            f"{part.value}-not-yet-valid",
            f"{title} was issued in the future.",
            points,
            Refused(f"{family}.not_yet_valid", Stage.COLLATERAL),
            shifted(part, 1),
        )
        for part, (title, family, points) in _PARTS.items()
    ),
    *(
        Scenario(
            f"{slug}-{word}",
            f"{title} {said}.",
            points,
            Refused(f"cert.{code}", stage),
            change(**{role: form}),
        )
        for table, change, stage in (
            (_CERTIFICATES, certificates, Stage.COLLATERAL),
            (_IN_QUOTE, quoted_certificates, Stage.VERIFICATION),
        )
        for role, (slug, title, points) in table.items()
        for word, said, code, form in (
            ("expired", "has expired", "expired", _EXPIRED),
            ("not-yet-valid", "is not valid yet", "not_yet_valid", _LATER),
        )
    ),
    Scenario(
        "one-second-after-the-collateral",
        "The collateral is judged one second after it ended.",
        (11, 12, 19, 20, 36),
        Refused("crl.expired", Stage.COLLATERAL),
        bench(later=COLLATERAL_LIFETIME - timedelta(minutes=5) + timedelta(seconds=1)),
    ),
    Scenario(
        "judged-before-the-collateral",
        "The collateral is judged a day before it was issued.",
        (11, 12, 19, 20),
        Refused("crl.not_yet_valid", Stage.COLLATERAL),
        bench(later=timedelta(days=-1)),
    ),
    Scenario(
        "collateral-steps-back",
        "The collateral still holds, and is older than what the reader has seen before.",
        (22,),
        Refused("collateral.rollback", Stage.VERIFICATION, authentic=Accepted()),
        bench(remembered=timedelta(days=5)),
    ),
    Scenario(
        "evaluation-steps-back",
        "The collateral is of an older TCB evaluation than what the reader has seen before.",
        (21, 22),
        Refused("collateral.rollback", Stage.VERIFICATION, authentic=Accepted()),
        _older_evaluation,
    ),
    Scenario(
        "collateral-steps-forward",
        "The reader has seen this collateral before, and nothing newer.",
        (22,),
        Accepted(),
        bench(remembered=timedelta()),
    ),
)
