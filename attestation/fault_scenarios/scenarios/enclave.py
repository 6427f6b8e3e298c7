"""The quoting enclave: who it is, what it certifies, and every signature on the way from the PCK key to the TD."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.keys import ORDER, Role, derive_key, public_point, sign_raw
from affiant.attestation.simulated.platform.quote_format import QuoteParts, quote_parts
from fault_scenarios.bench import REPORT_DATA, Bench
from fault_scenarios.changes import (
    another_root,
    bench,
    each,
    enclave,
    parts,
    qe_identity,
)
from fault_scenarios.scenario import Change, Refused, Scenario

__all__ = ["SCENARIOS"]

_IDENTITY: Final = Refused("qe.identity", Stage.VERIFICATION)
_BINDING: Final = Refused("qe.binding", Stage.VERIFICATION)
_REPORT: Final = Refused("qe.report_signature", Stage.VERIFICATION)
_SIGNATURE: Final = Refused("quote.signature", Stage.VERIFICATION)
_ORDER_BYTES: Final = ORDER.to_bytes(32, "big")


def _carried_point(point: bytes) -> Change:
    """The enclave certifies, and the quote carries, these 64 bytes instead of the attestation key."""

    def change(it: Bench) -> Bench:
        def certify(made: QuoteParts) -> QuoteParts:
            signer = replace(it.platform.quote_signer(), attestation_point=point)
            other = quote_parts(b"", it.layout, signer)
            return replace(
                made,
                attestation_point=point,
                qe_report=other.qe_report,
                qe_report_signature=other.qe_report_signature,
            )

        return replace(it, reshape=certify)

    return change


def _own_key(it: Bench) -> Bench:
    """An attacker signs what it likes with a key of its own, and puts that key in place of the certified one."""
    key = derive_key(another_root(it).seed, Role.ATTESTATION)
    return replace(
        it,
        reshape=lambda made: replace(
            made, signature=sign_raw(key, made.signed), attestation_point=public_point(key)
        ),
    )


def _signed_by(role: Role) -> Change:
    """The quote is signed by another key of the platform than the one that it carries."""

    def change(it: Bench) -> Bench:
        key = derive_key(it.platform.seed, role)
        return replace(it, reshape=lambda made: replace(made, signature=sign_raw(key, made.signed)))

    return change


def _report_signed_by(role: Role) -> Change:
    def change(it: Bench) -> Bench:
        key = derive_key(it.platform.seed, role)
        return replace(
            it, reshape=lambda made: replace(made, qe_report_signature=sign_raw(key, made.qe_report))
        )

    return change


def _turned(data: bytes, offset: int) -> bytes:
    """``data`` with one bit turned over."""
    changed = bytearray(data)
    changed[offset] ^= 1
    return bytes(changed)


def _edited(offset: int) -> Change:
    """One bit of what is signed is turned over afterwards."""
    return bench(reshape=lambda made: replace(made, signed=_turned(made.signed, offset)))


def _more_behind(it: Bench) -> Bench:
    bound = it.parts().qe_report[320:352]
    return enclave(report_data=bound + b"\x01" * 32)(it)


def _other_isv_svn(made: QuoteParts) -> QuoteParts:
    return replace(made, qe_report=_turned(made.qe_report, 258))


SCENARIOS: Final = (
    Scenario(
        "qe-of-another-signer",
        "Another enclave, certified by the same PCK key, acts as the quoting enclave.",
        (25,),
        _IDENTITY,
        enclave(mrsigner=b"\x01" * 32),
    ),
    Scenario(
        "qe-of-another-product",
        "The enclave has another ISVPRODID.",
        (25,),
        _IDENTITY,
        enclave(isv_prod_id=1),
    ),
    Scenario(
        "qe-in-debug-mode",
        "The quoting enclave is in debug mode.",
        (25,),
        _IDENTITY,
        enclave(attributes=b"\x13" + bytes(15)),
    ),
    Scenario(
        "qe-in-debug-mode-masked-out",
        "The quoting enclave is in debug mode, and the document's mask looks away.",
        (25,),
        _IDENTITY,
        each(
            enclave(attributes=b"\x13" + bytes(15)),
            qe_identity(attributes=b"\x11" + bytes(15), attributes_mask=b"\xf9" + b"\xff" * 7 + bytes(8)),
        ),
    ),
    Scenario(
        "qe-with-other-attributes",
        "The quoting enclave lacks an attribute.",
        (25,),
        _IDENTITY,
        enclave(attributes=b"\x01" + bytes(15)),
    ),
    Scenario(
        "qe-with-other-miscselect",
        "The quoting enclave has another MISCSELECT.",
        (25,),
        _IDENTITY,
        enclave(misc_select=b"\x01\0\0\0"),
    ),
    Scenario(
        "qe-binds-another-key",
        "The enclave's report names another key than the one in the quote.",
        (24,),
        _BINDING,
        enclave(report_data=b"\x01" * 32 + bytes(32)),
    ),
    Scenario(
        "qe-binding-with-more-behind",
        "The enclave's report names the key, and has more than zeros behind it.",
        (24,),
        _BINDING,
        _more_behind,
    ),
    Scenario(
        "qe-auth-data-exchanged",
        "The enclave's authentication data are not those that its report covers.",
        (24,),
        _BINDING,
        parts(qe_auth_data=b"affiant SIMULATED, exchanged ..."),
    ),
    Scenario(
        "attestation-key-exchanged",
        "Somebody signed the quote with a key of their own and put that key into it.",
        (24,),
        _BINDING,
        _own_key,
    ),
    Scenario(
        "qe-report-by-another-key",
        "The enclave's report is signed by another key than the PCK's.",
        (23,),
        _REPORT,
        _report_signed_by(Role.SIBLING_PCK),
    ),
    Scenario(
        "qe-report-edited",
        "The enclave's ISVSVN was changed after its report was signed.",
        (23,),
        _REPORT,
        bench(reshape=_other_isv_svn),
    ),
    Scenario(
        "qe-report-signature-zero",
        "r and s of the report's signature are zero.",
        (5, 23),
        _REPORT,
        parts(qe_report_signature=bytes(64)),
    ),
    Scenario(
        "quote-by-another-key",
        "The quote is signed by another key than the one that it carries.",
        (27,),
        _SIGNATURE,
        _signed_by(Role.PCK),
    ),
    Scenario(
        "report-data-edited",
        "REPORTDATA was changed after the quote was signed.",
        (27,),
        _SIGNATURE,
        bench(reshape=lambda made: replace(made, signed=made.signed.replace(REPORT_DATA, bytes(64)))),
    ),
    Scenario(
        "body-edited",
        "The last bit of the body was turned over after the quote was signed.",
        (27,),
        _SIGNATURE,
        _edited(-1),
    ),
    Scenario(
        "header-edited",
        "The header's opaque bytes were changed after the quote was signed.",
        (27,),
        _SIGNATURE,
        _edited(28),
    ),
    Scenario(
        "quote-signature-zero",
        "r and s of the quote's signature are zero.",
        (5, 27),
        _SIGNATURE,
        parts(signature=bytes(64)),
    ),
    Scenario(
        "quote-signature-of-the-order",
        "r and s of the quote's signature are the order of the curve.",
        (5, 27),
        _SIGNATURE,
        parts(signature=_ORDER_BYTES * 2),
    ),
    Scenario(
        "attestation-key-off-the-curve",
        "The attestation key is no point of P-256, though the enclave certifies it.",
        (5,),
        Refused("quote.malformed", Stage.VERIFICATION),
        _carried_point(b"\x01" * 64),
    ),
    Scenario(
        "attestation-key-zero",
        "The attestation key is all zero, though the enclave certifies it.",
        (5,),
        Refused("quote.malformed", Stage.VERIFICATION),
        _carried_point(bytes(64)),
    ),
)
