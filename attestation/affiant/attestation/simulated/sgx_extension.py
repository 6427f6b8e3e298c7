"""The SGX extension of a PCK certificate, from a machine's identity.

Source: Intel SGX PCK Certificate and Certificate Revocation List Profile Specification 1.5, section 1.3.5.
Members and lengths: .1 PPID 16, .2 TCB (.2.1 to .2.16 component SVNs, .2.17 PCESVN, .2.18 CPUSVN 16),
.3 PCEID 2, .4 FMSPC 6, .5 SGX type; under the Platform CA also .6 platform instance id 16 and .7 configuration.
"""

from __future__ import annotations

from typing import Final

from affiant.attestation.simulated import der
from affiant.attestation.simulated.identity import MachineIdentity, PCKIssuer

__all__ = ["SGX_EXTENSION_OID", "encode_sgx_extension"]

SGX_EXTENSION_OID: Final = "1.2.840.113741.1.13.1"


def encode_sgx_extension(machine: MachineIdentity) -> bytes:
    """The extension's value, DER."""
    members = [
        _member("1", der.octet_string(machine.ppid)),
        _member("2", _tcb(machine)),
        _member("3", der.octet_string(machine.pce_id)),
        _member("4", der.octet_string(machine.fmspc)),
        _member("5", der.enumerated(machine.sgx_type)),
    ]
    if machine.issuer is PCKIssuer.PLATFORM:
        members.append(_member("6", der.octet_string(machine.platform_instance_id)))
        members.append(_member("7", _configuration(machine)))
    return der.sequence(*members)


def _tcb(machine: MachineIdentity) -> bytes:
    components = [
        _member(f"2.{index}", der.integer(svn)) for index, svn in enumerate(machine.sgx_components, start=1)
    ]
    return der.sequence(
        *components,
        _member("2.17", der.integer(machine.pce_svn)),
        _member("2.18", der.octet_string(bytes(machine.sgx_components))),
    )


def _configuration(machine: MachineIdentity) -> bytes:
    return der.sequence(
        _member("7.1", der.boolean(machine.dynamic_platform)),
        _member("7.2", der.boolean(machine.cached_keys)),
        _member("7.3", der.boolean(machine.smt)),
    )


def _member(arc: str, value: bytes) -> bytes:
    return der.sequence(der.oid(f"{SGX_EXTENSION_OID}.{arc}"), value)
