"""L1, the models: whether each answer names the model that was asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.verdict.summary import Answers
from affiant.attestation.verdict.verdict import Finding, Tier
from affiant.attestation.verifier.case.case import Case, Party
from affiant.attestation.verifier.checks.evidence_checks import config_of

__all__ = ["check_answered"]


def check_answered(case: Case) -> Finding:
    """``model.answered``: each answer names the model that was asked for, or an alias of it in the gateway's measured
    configuration; any other name is a warning. Of the sessions in question.

    Aliases count only where ``conf.bound`` held: without it nothing says that the configuration is the measured one.
    """
    case.need("sig.receipts")
    found, where, wanted = Answers(), list[str](), case.in_question
    for party in case.gateways:
        aliases = _aliases(case, party)
        for record in party.records:
            if record.kind != "inference" or record.member("agt", "ses") not in wanted:
                continue
            asked, answered = str(record.member("mdl", "id")), record.member("mdl", "ans")
            if not isinstance(answered, str):
                found.unnamed += _is_answer(record)
                continue
            found.named += 1
            if answered != asked and answered not in aliases.get(asked, ()):
                found.other(asked, answered)
                where.append(record.jti)
    return Finding.of(found, Tier.WARNING if where else Tier.AFFIRMING, tuple(where))


def _aliases(case: Case, party: Party) -> Mapping[str, Sequence[str]]:
    return config_of(case, party).model_aliases if "conf.bound" in case.established else {}


def _is_answer(record: VerifiedReceipt) -> bool:
    """Whether a whole answer of a model was passed on: an error of the upstream names none."""
    status = record.member("res", "st")
    return record.member("res", "end") == "complete" and isinstance(status, int) and 200 <= status < 300
