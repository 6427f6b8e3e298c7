"""The SGX extension of the PCK certificate: leaves signed as they stand, with a member that is not as it should be."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.release.platform_identity import MachineIdentity
from affiant.attestation.simulated.platform import der
from affiant.attestation.simulated.platform.pki import CertificateForm
from affiant.attestation.simulated.platform.sgx_extension import encode_sgx_extension, sgx_member
from fault_scenarios.bench import Bench
from fault_scenarios.changes import quoted_certificates
from fault_scenarios.scenario import Accepted, Change, Refused, Scenario

__all__ = ["SCENARIOS"]

_EXTENSION: Final = Refused("pck.extension", Stage.VERIFICATION)


def _extension(make: Callable[[MachineIdentity], bytes]) -> Change:
    """The leaf has another SGX extension, signed with the rest of it."""

    def change(it: Bench) -> Bench:
        return quoted_certificates(pck=CertificateForm(sgx_extension=make(it.platform.machine)))(it)

    return change


def _other(**fields: Any) -> Change:
    """The extension of a machine whose values have other sizes."""
    return _extension(lambda machine: encode_sgx_extension(replace(machine, **fields)))


def _without(arc: str) -> Change:
    return _extension(lambda machine: encode_sgx_extension(machine, without=frozenset({arc})))


def _with(*more: bytes) -> Change:
    return _extension(lambda machine: encode_sgx_extension(machine, more=more))


SCENARIOS: Final = (
    Scenario(
        "pck-without-extension",
        "The PCK certificate has no SGX extension.",
        (10,),
        _EXTENSION,
        _extension(lambda _: b""),
    ),
    Scenario(
        "pck-extension-of-garbage",
        "The SGX extension is no DER.",
        (10,),
        _EXTENSION,
        _extension(lambda _: b"\x30\x80\x00\x00"),
    ),
    Scenario("pck-ppid-too-short", "The PPID has 15 bytes.", (10,), _EXTENSION, _other(ppid=bytes(15))),
    Scenario("pck-fmspc-too-long", "The FMSPC has 7 bytes.", (10,), _EXTENSION, _other(fmspc=bytes(7))),
    Scenario("pck-pceid-too-long", "The PCEID has 3 bytes.", (10,), _EXTENSION, _other(pce_id=bytes(3))),
    Scenario("pck-pce-svn-too-large", "The PCESVN has 17 bits.", (10,), _EXTENSION, _other(pce_svn=0x10000)),
    Scenario(
        "pck-15-components",
        "There are 15 component SVNs.",
        (10,),
        _EXTENSION,
        _other(sgx_components=(3,) * 15),
    ),
    Scenario(
        "pck-sgx-type-unknown", "The SGX type is 3, which is none.", (10,), _EXTENSION, _other(sgx_type=3)
    ),
    Scenario("pck-without-fmspc", "The SGX extension has no FMSPC.", (10,), _EXTENSION, _without("4")),
    Scenario("pck-without-tcb", "The SGX extension has no TCB.", (10,), _EXTENSION, _without("2")),
    Scenario(
        "pck-fmspc-twice",
        "The SGX extension has two FMSPCs.",
        (10,),
        _EXTENSION,
        _with(sgx_member("4", der.octet_string(b"OTHERS"))),
    ),
    Scenario(
        "pck-member-is-no-pair",
        "A member of the SGX extension is an identifier without a value.",
        (10,),
        _EXTENSION,
        _with(sgx_member("9", b"")),
    ),
    Scenario(
        "pck-with-unknown-member",
        "The SGX extension has a member that nobody knows, which is no fault.",
        (10,),
        Accepted(),
        _with(sgx_member("9", der.integer(1))),
    ),
)
