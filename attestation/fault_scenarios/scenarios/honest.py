"""What must be accepted, though verifiers in the field refuse some of it."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from typing import Final

from affiant.attestation.release.platform_identity import PCKIssuer
from affiant.attestation.simulated.platform.keys import ORDER
from affiant.attestation.simulated.platform.pki import CertificateForm, CertificateRole, pem_chain
from affiant.attestation.simulated.platform.platform import COLLATERAL_LIFETIME, SimulatedPlatform
from affiant.attestation.simulated.platform.quote_format import QuoteFrame, QuoteParts
from affiant.attestation.simulated.platform.tcb_documents import (
    ModuleRecord,
    SVNLevel,
    Wording,
    default_tcb_info,
)
from fault_scenarios.bench import Bench
from fault_scenarios.changes import (
    bench,
    enclave,
    machine,
    on_platform,
    parts,
    quoted_certificates,
    renewed_signer,
    tcb_wording,
    unchanged,
)
from fault_scenarios.scenario import TD15, V4, Accepted, Change, Scenario

__all__ = ["SCENARIOS"]

_GOOD: Final = Accepted()
_SIGNATURE_END: Final = b'"}'


def _high(signature: bytes) -> bytes:
    """The other signature that holds: r, n - s (the greater of both s)."""
    s = int.from_bytes(signature[32:], "big")
    return signature[:32] + max(s, ORDER - s).to_bytes(32, "big")


def _all_high(made: QuoteParts) -> QuoteParts:
    return replace(made, signature=_high(made.signature), qe_report_signature=_high(made.qe_report_signature))


def _short(at: int) -> Change:
    """A quote whose r (``at`` 0) or s (32) begins with a zero byte: the header's opaque bytes are tried in turn."""

    def change(it: Bench) -> Bench:
        number = 0
        while (tried := replace(it, frame=QuoteFrame(user_data=b"%020d" % number))).parts().signature[at]:
            number += 1
        return tried

    return change


def _short_report(it: Bench) -> Bench:
    """A QE report signature with a short r: the enclave's authentication data is tried in turn."""
    number = 0
    while (tried := enclave(auth_data=b"%032d" % number)(it)).parts().qe_report_signature[0]:
        number += 1
    return tried


def _short_document(it: Bench) -> Bench:
    """A TCB Info signature with a short r: a member that nobody reads is tried in turn."""
    number = 0
    while True:
        tried = tcb_wording(members={"simulated": number})(it)
        signature = tried.issued().tcb_info.removesuffix(_SIGNATURE_END)[-128:]
        if signature.startswith(b"00"):
            return tried
        number += 1


def _module_version(version: int, identifier: str) -> Change:
    def change(it: SimulatedPlatform) -> SimulatedPlatform:
        tee_tcb_svn = bytes((5, version, 3)) + bytes(13)
        module = replace(it.module, tee_tcb_svn=tee_tcb_svn)
        record = ModuleRecord(identifier=identifier, levels=(SVNLevel(isv_svn=5),))
        content = replace(default_tcb_info(it.machine, module), modules=(record,))
        return replace(it, module=module, tcb_info=content)

    return on_platform(change)


def _shuffled(it: SimulatedPlatform) -> SimulatedPlatform:
    record = it.tcb_info.modules[0]
    return replace(
        it,
        tcb_info=replace(
            it.tcb_info,
            levels=it.tcb_info.levels[::-1],
            modules=(replace(record, levels=record.levels[::-1]),),
        ),
        qe_identity=replace(it.qe_identity, levels=it.qe_identity.levels[::-1]),
    )


def _chain(*roles: CertificateRole, end: bytes = b"") -> Change:
    def change(it: Bench) -> Bench:
        chain = pem_chain(tuple(it.platform.certificates.of(role) for role in roles)) + end
        return parts(certification_data=chain)(it)

    return change


def _crlf(it: Bench) -> Bench:
    chain = it.platform.quote_signer().pck_chain.replace(b"\n", b"\r\n")
    return parts(certification_data=chain)(it)


def _upper_case(it: Bench) -> Bench:
    machine = it.platform.machine
    return tcb_wording(members={"fmspc": machine.fmspc.hex().upper(), "pceId": machine.pce_id.hex().upper()})(
        it
    )


def _sibling(it: Bench) -> Bench:
    """Another machine's quote, under the collateral that both machines have."""
    return replace(it, platform=it.platform.sibling(), authority=it.platform)


_LEAF, _AUTHORITY, _ROOT = CertificateRole.PCK, CertificateRole.PCK_ISSUER, CertificateRole.ROOT

SCENARIOS: Final = (
    Scenario(
        "up-to-date", "Everything holds, and the platform is up to date.", (14, 29, 31, 45), _GOOD, unchanged
    ),
    Scenario(
        "processor-ca",
        "The PCK certificate is issued by the Processor CA, and the revocation list is that CA's.",
        (7, 12),
        _GOOD,
        machine(issuer=PCKIssuer.PROCESSOR),
    ),
    Scenario("second-machine", "Another machine of the same kind made the quote.", (8, 19), _GOOD, _sibling),
    Scenario(
        "chain-without-root",
        "The quote's chain leaves the root out, which is a hint only.",
        (4, 6, 9),
        _GOOD,
        _chain(_LEAF, _AUTHORITY),
    ),
    Scenario(
        "another-certificate-of-the-root",
        "The root in the quote's chain is another certificate of the same root key.",
        (6,),
        _GOOD,
        quoted_certificates(root=CertificateForm(serial=0x53)),
    ),
    Scenario(
        "another-certificate-of-the-authority",
        "The quote's intermediate is another certificate of the same authority than the collateral's.",
        (7, 12),
        _GOOD,
        quoted_certificates(pck_issuer=CertificateForm(serial=0x51)),
    ),
    Scenario(
        "chain-ends-in-nul",
        "The quote's chain ends in a NUL byte, as Intel's quoting library writes it.",
        (4,),
        _GOOD,
        _chain(_LEAF, _AUTHORITY, _ROOT, end=b"\0"),
    ),
    Scenario(
        "chain-with-crlf",
        "The lines of the quote's chain end in carriage return and line feed.",
        (4,),
        _GOOD,
        _crlf,
    ),
    Scenario("padding-70", "70 zero bytes follow the quote.", (3,), _GOOD, parts(tail=bytes(70))),
    Scenario(
        "padding-to-8000",
        "The quote stands in a buffer of 8000 bytes.",
        (1, 3),
        _GOOD,
        bench(recut=lambda raw: raw.ljust(8000, b"\0")),
    ),
    Scenario(
        "padding-one-byte", "One byte other than zero follows the quote.", (3,), _GOOD, parts(tail=b"\xff")
    ),
    Scenario(
        "high-s",
        "Both signatures of the quote have the greater of both valid s.",
        (5,),
        _GOOD,
        bench(reshape=_all_high),
    ),
    Scenario(
        "short-r", "The r of the quote's signature begins with a zero byte.", (5, 27), _GOOD, _short(0), V4
    ),
    Scenario(
        "short-s", "The s of the quote's signature begins with a zero byte.", (5, 27), _GOOD, _short(32), V4
    ),
    Scenario(
        "short-r-of-qe-report",
        "The r of the QE report's signature begins with a zero byte.",
        (5, 23),
        _GOOD,
        _short_report,
        V4,
    ),
    Scenario(
        "short-r-of-tcb-info",
        "The r of TCB Info's signature begins with a zero byte.",
        (5, 15),
        _GOOD,
        _short_document,
        V4,
    ),
    *(
        Scenario(
            f"qe-auth-data-{size}",
            f"The quoting enclave's authentication data has {size} bytes instead of the usual 32.",
            (3, 24),
            _GOOD,
            enclave(auth_data=bytes(size)),
        )
        for size in (0, 1, 64, 1000)
    ),
    Scenario(
        "qe-attribute-that-the-mask-omits",
        "The quoting enclave runs in 64-bit mode, a bit that QE Identity's mask leaves open.",
        (25,),
        _GOOD,
        enclave(attributes=b"\x15" + bytes(15)),
    ),
    Scenario(
        "fmspc-in-upper-case",
        "TCB Info spells FMSPC and PCEID in upper-case hexadecimal.",
        (18, 19),
        _GOOD,
        _upper_case,
    ),
    Scenario(
        "two-signer-certificates",
        "TCB Info and QE Identity come with two certificates of one signing key, the older and the renewed one.",
        (16, 17),
        _GOOD,
        renewed_signer,
    ),
    Scenario(
        "levels-in-another-order",
        "All levels stand in reversed order; the verdict does not depend on it.",
        (26, 30, 31),
        _GOOD,
        on_platform(_shuffled),
    ),
    Scenario(
        "module-major-version-0",
        "A TDX module of version 0 is judged by the platform's levels, without an identity of its own.",
        (28, 31),
        _GOOD,
        _module_version(0, "TDX_01"),
    ),
    Scenario(
        "module-major-version-16",
        "A TDX module of version 16 is listed as TDX_10: hexadecimal, not decimal.",
        (28,),
        _GOOD,
        _module_version(0x10, "TDX_10"),
    ),
    Scenario(
        "module-identity-in-lower-case",
        "A TDX module of version 27 is listed as TDX_1b, in lower case.",
        (28,),
        _GOOD,
        _module_version(0x1B, "TDX_1b"),
    ),
    Scenario(
        "unknown-members",
        "Both documents have members that this verifier does not know.",
        (18,),
        _GOOD,
        on_platform(
            lambda it: replace(
                it,
                tcb_info=replace(it.tcb_info, wording=Wording(members={"newer": [{}]})),
                qe_identity=replace(it.qe_identity, wording=Wording(members={"newer": None})),
            )
        ),
    ),
    Scenario(
        "last-second-of-the-collateral",
        "The collateral is judged in the very second in which it ends.",
        (11, 12, 19, 20, 36),
        _GOOD,
        bench(later=COLLATERAL_LIFETIME - timedelta(minutes=5)),
    ),
    Scenario(
        "td15-extended-body",
        "A TD 1.5 extended body: type 4, with 885 bytes.",
        (2,),
        _GOOD,
        bench(frame=QuoteFrame(body_type=4), rebody=lambda body: body + bytes(237)),
        TD15,
    ),
)
