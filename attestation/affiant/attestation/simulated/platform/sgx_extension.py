"""Writes the SGX extension of a PCK certificate from a machine's identity.

Source: Intel SGX PCK Certificate and Certificate Revocation List Profile Specification 1.5, section 1.3.5.
Members and lengths: .1 PPID 16, .2 TCB (.2.1 to .2.16 component SVNs, .2.17 PCESVN, .2.18 CPUSVN 16),
.3 PCEID 2, .4 FMSPC 6, .5 SGX type; under the Platform CA also .6 platform instance id 16 and .7 configuration.
"""

from __future__ import annotations

from typing import Final

from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform import der

__all__ = ["SGX_EXTENSION_OID", "encode_sgx_extension", "sgx_member"]

SGX_EXTENSION_OID: Final = "1.2.840.113741.1.13.1"


def encode_sgx_extension(
    machine: MachineIdentity, *, without: frozenset[str] = frozenset(), more: tuple[bytes, ...] = ()
) -> bytes:
    """The extension's value, DER; ``without`` the members of these arcs (``"1"`` to ``"7"``), and with ``more``
    members behind its own."""
    members = {
        "1": der.octet_string(machine.ppid),
        "2": _tcb(machine),
        "3": der.octet_string(machine.pce_id),
        "4": der.octet_string(machine.fmspc),
        "5": der.enumerated(machine.sgx_type),
    }
    if machine.issuer is PCKIssuer.PLATFORM:
        members["6"] = der.octet_string(machine.platform_instance_id)
        members["7"] = _configuration(machine)
    own = (sgx_member(arc, value) for arc, value in members.items() if arc not in without)
    return der.sequence(*own, *more)


def _tcb(machine: MachineIdentity) -> bytes:
    components = [
        sgx_member(f"2.{index}", der.integer(svn))
        for index, svn in enumerate(machine.sgx_components, start=1)
    ]
    return der.sequence(
        *components,
        sgx_member("2.17", der.integer(machine.pce_svn)),
        sgx_member("2.18", der.octet_string(bytes(machine.sgx_components))),
    )


def _configuration(machine: MachineIdentity) -> bytes:
    return der.sequence(
        sgx_member("7.1", der.boolean(machine.dynamic_platform)),
        sgx_member("7.2", der.boolean(machine.cached_keys)),
        sgx_member("7.3", der.boolean(machine.smt)),
    )


def sgx_member(arc: str, value: bytes) -> bytes:
    """One member: its identifier below the extension's own, and its value in DER."""
    return der.sequence(der.oid(f"{SGX_EXTENSION_OID}.{arc}"), value)
