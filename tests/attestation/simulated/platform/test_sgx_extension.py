from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.release.platform_identity import FMSPC, PPID, MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform import der
from affiant.attestation.simulated.platform.sgx_extension import encode_sgx_extension, sgx_member
from affiant.attestation.tdx.pki.pck import parse_pck_extension

svn = st.integers(0, 255)
machines = st.builds(
    MachineIdentity,
    ppid=st.binary(min_size=16, max_size=16),
    fmspc=st.binary(min_size=6, max_size=6),
    pce_id=st.binary(min_size=2, max_size=2),
    sgx_components=st.tuples(*[svn] * 16),
    pce_svn=st.integers(0, 65535),
    sgx_type=st.integers(0, 2),
    platform_instance_id=st.binary(min_size=16, max_size=16),
    dynamic_platform=st.booleans(),
    cached_keys=st.booleans(),
    smt=st.booleans(),
)


@thorough(60)
@given(machines)
def test_the_verifier_reads_back_every_machine(machine: MachineIdentity) -> None:
    parsed = parse_pck_extension(encode_sgx_extension(machine))
    assert (parsed.ppid, parsed.fmspc, parsed.pceid) == (machine.ppid, machine.fmspc, machine.pce_id)
    assert (parsed.components, parsed.pce_svn) == (machine.sgx_components, machine.pce_svn)
    assert parsed.cpu_svn == bytes(machine.sgx_components)
    assert (parsed.sgx_type, parsed.platform_instance_id) == (machine.sgx_type, machine.platform_instance_id)
    flags = (parsed.dynamic_platform, parsed.cached_keys, parsed.smt_enabled)
    assert flags == (machine.dynamic_platform, machine.cached_keys, machine.smt)


def test_the_processor_authority_writes_no_platform_members() -> None:
    parsed = parse_pck_extension(encode_sgx_extension(MachineIdentity(issuer=PCKIssuer.PROCESSOR)))
    assert parsed.platform_instance_id is None
    assert parsed.smt_enabled is None


def test_a_simulated_machine_is_labelled() -> None:
    parsed = parse_pck_extension(encode_sgx_extension(MachineIdentity()))
    assert (parsed.ppid, parsed.fmspc) == (PPID, FMSPC)


@pytest.mark.parametrize("arc", ["1", "2", "3", "4", "5"])
def test_a_member_can_be_left_out_or_stand_twice(arc: str) -> None:
    for made in (
        encode_sgx_extension(MachineIdentity(), without=frozenset({arc})),
        encode_sgx_extension(MachineIdentity(), more=(sgx_member(arc, der.integer(0)),)),
    ):
        with raises_code("pck.extension"):
            parse_pck_extension(made)


def test_what_the_processor_ca_leaves_out_may_be_left_out() -> None:
    made = encode_sgx_extension(MachineIdentity(), without=frozenset({"6", "7"}))
    assert made == encode_sgx_extension(MachineIdentity(issuer=PCKIssuer.PROCESSOR))
