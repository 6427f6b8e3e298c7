from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import pytest
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.utils import encode_dss_signature
from tests.attestation.simulated.conftest import NOW

from affiant.attestation.release.platform_identity import MachineIdentity, ModuleIdentity, QuotingEnclave
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.tcb_documents import (
    Wording,
    default_qe_identity,
    default_tcb_info,
    sign_document,
)
from affiant.attestation.tdx.tcb.qe_identity import parse_qe_identity
from affiant.attestation.tdx.tcb.tcb_info import parse_tcb_info

LATER = NOW + timedelta(days=30)
KEY = derive_key(bytes(32), Role.TCB_SIGNING)


@pytest.mark.parametrize("member", ["tcbInfo", "enclaveIdentity"])
def test_the_signature_covers_exactly_the_text_in_the_body(member: str) -> None:
    text = b'{"id":"x","n":[1,2]}'
    body = sign_document(member, text, KEY)
    raw = bytes.fromhex(json.loads(body)["signature"])
    assert body == b'{"%s":%s,"signature":"%s"}' % (member.encode(), text, raw.hex().encode())
    encoded = encode_dss_signature(int.from_bytes(raw[:32], "big"), int.from_bytes(raw[32:], "big"))
    KEY.public_key().verify(encoded, text, ec.ECDSA(hashes.SHA256()))


def test_tcb_info_is_a_v3_document_of_this_machine() -> None:
    text = default_tcb_info(MachineIdentity(), ModuleIdentity()).to_bytes(issued=NOW, next_update=LATER)
    document = json.loads(text)
    assert (document["id"], document["version"], document["tcbType"]) == ("TDX", 3, 0)
    assert (document["issueDate"], document["nextUpdate"]) == ("2026-05-04T12:00:00Z", "2026-06-03T12:00:00Z")
    parse_tcb_info(sign_document("tcbInfo", text, KEY))


def test_the_modules_identity_is_named_in_hexadecimal() -> None:
    module = ModuleIdentity(tee_tcb_svn=bytes((5, 0x1A)) + bytes(14))
    assert default_tcb_info(MachineIdentity(), module).modules[0].identifier == "TDX_1a"


def test_qe_identity_is_a_v2_document_of_this_enclave() -> None:
    enclave = QuotingEnclave()
    text = default_qe_identity(enclave).to_bytes(issued=NOW, next_update=LATER)
    document = json.loads(text)
    assert (document["id"], document["version"]) == ("TD_QE", 2)
    assert bytes.fromhex(document["mrsigner"]) == enclave.mrsigner
    parse_qe_identity(sign_document("enclaveIdentity", text, KEY))


def test_a_wording_replaces_adds_leaves_out_and_inserts() -> None:
    wording = Wording(
        members={"version": 9, "newer": []}, without=frozenset({"fmspc"}), inserted=',"id":"twice"'
    )
    info = replace(default_tcb_info(MachineIdentity(), ModuleIdentity()), wording=wording)
    text = info.to_bytes(issued=NOW, next_update=LATER)
    pairs = json.loads(text, object_pairs_hook=list)
    assert [value for name, value in pairs if name == "id"] == ["TDX", "twice"]
    assert dict(pairs)["version"] == 9
    assert dict(pairs)["newer"] == []
    assert "fmspc" not in dict(pairs)


def test_a_document_without_a_wording_reads_as_before() -> None:
    for document in (
        default_tcb_info(MachineIdentity(), ModuleIdentity()),
        default_qe_identity(QuotingEnclave()),
    ):
        plain = document.to_bytes(issued=NOW, next_update=LATER)
        assert replace(document, wording=Wording()).to_bytes(issued=NOW, next_update=LATER) == plain
