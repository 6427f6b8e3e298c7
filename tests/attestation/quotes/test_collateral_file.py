"""Collateral comes in two closed forms and a folder; every byte that is signed stays as it was."""

from __future__ import annotations

import base64
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote as url_encode

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tdx.conftest import NOW, quote_of, verify

from affiant.attestation.quotes.collateral_file import parse_collateral_file
from affiant.attestation.quotes.collateral_folder import CollateralAbsent, read_collateral
from affiant.attestation.simulated.identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform import SimulatedPlatform
from affiant.attestation.tdx.collateral import Collateral
from affiant.attestation.tdx.errors import CollateralMalformed
from affiant.attestation.tdx.quote import parse_quote


def as_qcv3(collateral: Collateral) -> dict[str, str]:
    """The members of QuoteCollateralV3, cut from the exact bodies."""

    def cut(body: bytes, member: str) -> tuple[str, str]:
        text = body.decode()
        return text[len(member) + 4 : text.rindex(',"signature"')], json.loads(text)["signature"]

    tcb, tcb_signature = cut(collateral.tcb_info, "tcbInfo")
    qe, qe_signature = cut(collateral.qe_identity, "enclaveIdentity")
    return {
        "pck_crl_issuer_chain": collateral.pck_crl_issuer_chain.decode(),
        "root_ca_crl": collateral.root_ca_crl.hex(),
        "pck_crl": collateral.pck_crl.hex(),
        "tcb_info_issuer_chain": collateral.tcb_info_issuer_chain.decode(),
        "tcb_info": tcb,
        "tcb_info_signature": tcb_signature,
        "qe_identity_issuer_chain": collateral.qe_identity_issuer_chain.decode(),
        "qe_identity": qe,
        "qe_identity_signature": qe_signature,
    }


def test_both_forms_give_the_same_seven_items(platform: SimulatedPlatform) -> None:
    collateral = platform.collateral(NOW)
    theirs = json.dumps(as_qcv3(collateral)).encode()
    assert parse_collateral_file(theirs) == collateral
    assert parse_collateral_file(collateral.to_bytes()) == collateral
    assert parse_collateral_file(collateral.to_bytes() + b"\n") == collateral
    with_chain = json.dumps(as_qcv3(collateral) | {"pck_certificate_chain": "never read"}).encode()
    assert parse_collateral_file(with_chain) == collateral


def test_a_text_cannot_be_moved_out_of_its_signature(platform: SimulatedPlatform) -> None:
    """The body is put together from two members; what would end the first one early verifies under nothing."""
    members = as_qcv3(platform.collateral(NOW))
    forged = members["tcb_info"].replace("OutOfDate", "UpToDate")
    for text in (
        forged + f',"signature":"{members["tcb_info_signature"]}","x":{{}}',
        f'{members["tcb_info"]},"signature":"{members["tcb_info_signature"]}"}},{{"tcbInfo":{forged}',
        forged,
    ):
        with pytest.raises((CollateralMalformed, Exception)) as refused:
            verify(
                platform, collateral=parse_collateral_file(json.dumps(members | {"tcb_info": text}).encode())
            )
        assert refused.value.code in {"tcb.malformed", "collateral.signature"}  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    "change",
    [
        {"root_ca_crl": "30 82"},
        {"root_ca_crl": "308"},
        {"root_ca_crl": "zz"},
        {"pck_crl": 7},
        {"tcb_info": None},
        {"tcb_info": "\ud800"},
        {"more": ""},
        {"typ": "affiant-dcap-collateral/1"},
        {"typ": "affiant-dcap-collateral/2"},
    ],
    ids=str,
)
def test_another_form_is_refused(platform: SimulatedPlatform, change: Any) -> None:
    content = json.dumps(as_qcv3(platform.collateral(NOW)) | change).encode()
    with pytest.raises(CollateralMalformed):
        parse_collateral_file(content)


def test_a_missing_or_doubled_member_is_refused(platform: SimulatedPlatform) -> None:
    members = as_qcv3(platform.collateral(NOW))
    for name in members:
        less = {key: value for key, value in members.items() if key != name}
        with pytest.raises(CollateralMalformed, match=name):
            parse_collateral_file(json.dumps(less).encode())
        text = json.dumps(members)
        with pytest.raises(CollateralMalformed):
            parse_collateral_file((text[:-1] + f',"{name}":""}}').encode())


@given(st.binary(max_size=300))
def test_arbitrary_bytes_are_only_refused(content: bytes) -> None:
    with pytest.raises(CollateralMalformed):
        parse_collateral_file(content)


# -- a folder --------------------------------------------------------------------------------------------------


def pem_list(der: bytes) -> bytes:
    return b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"


def write_folder(folder: Path, collateral: Collateral, *, fmspc: str, ca: str = "platform") -> Path:
    folder.mkdir()
    (folder / f"tcb_info_{fmspc}.json").write_bytes(collateral.tcb_info)
    (folder / f"tcb_info_{fmspc}_chain.txt").write_text(url_encode(collateral.tcb_info_issuer_chain))
    (folder / "qe_identity.json").write_bytes(collateral.qe_identity)
    (folder / "qe_identity_chain.pem").write_bytes(collateral.qe_identity_issuer_chain)
    (folder / "root_ca_crl.hex").write_text(collateral.root_ca_crl.hex() + "\n")
    (folder / f"pck_crl_{ca}.pem").write_bytes(pem_list(collateral.pck_crl))
    (folder / f"pck_crl_{ca}_chain.pem").write_bytes(collateral.pck_crl_issuer_chain)
    return folder


@pytest.fixture
def folder(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    return write_folder(tmp_path / "collateral", platform.collateral(NOW), fmspc=platform.machine.fmspc.hex())


def test_a_folder_of_answers_gives_the_items_exactly(platform: SimulatedPlatform, folder: Path) -> None:
    quote = parse_quote(quote_of(platform))
    assert read_collateral(folder, quote) == platform.collateral(NOW)


def test_files_of_other_platforms_beside_it_are_not_taken(platform: SimulatedPlatform, folder: Path) -> None:
    (folder / "tcb_info_00806f050000.json").write_bytes(b"{}")
    (folder / "pck_crl_processor.crl").write_bytes(b"")
    (folder / "README.txt").write_bytes(b"")
    assert read_collateral(folder, parse_quote(quote_of(platform))) == platform.collateral(NOW)


def test_the_authority_of_the_quote_chooses_the_list(tmp_path: Path) -> None:
    machine = MachineIdentity(issuer=PCKIssuer.PROCESSOR)
    processor = SimulatedPlatform.create(now=NOW, random_bytes=bytes, machine=machine)
    folder = write_folder(
        tmp_path / "c", processor.collateral(NOW), fmspc=machine.fmspc.hex(), ca="processor"
    )
    found = read_collateral(folder, parse_quote(quote_of(processor)))
    assert verify(processor, collateral=found).fmspc == machine.fmspc


@pytest.mark.parametrize(
    "name",
    ["qe_identity.json", "qe_identity_chain.pem", "root_ca_crl.hex", "pck_crl_platform.pem"],
)
def test_an_absent_file_is_named(platform: SimulatedPlatform, folder: Path, name: str) -> None:
    (folder / name).unlink()
    with pytest.raises(CollateralAbsent, match=name.rpartition(".")[0]):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_two_files_for_one_item_are_refused(platform: SimulatedPlatform, folder: Path) -> None:
    shutil.copy(folder / "pck_crl_platform.pem", folder / "pck_crl_platform.crl")
    with pytest.raises(CollateralAbsent, match="two files"):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_one_collateral_json_in_a_folder_is_enough(platform: SimulatedPlatform, tmp_path: Path) -> None:
    collateral = platform.collateral(NOW)
    (tmp_path / "collateral.json").write_bytes(collateral.to_bytes())
    assert read_collateral(tmp_path, parse_quote(quote_of(platform))) == collateral


def test_a_list_that_is_no_base64_is_refused(platform: SimulatedPlatform, folder: Path) -> None:
    (folder / "pck_crl_platform.pem").write_bytes(b"-----BEGIN X509 CRL-----\nAAA\n-----END X509 CRL-----\n")
    with pytest.raises(CollateralMalformed):
        read_collateral(folder, parse_quote(quote_of(platform)))


def test_the_recorded_answers_of_the_service_are_read(vectors: Any) -> None:
    quote = parse_quote(vectors.quote("dstack_16cpu_v4"))
    found = read_collateral(vectors.root / "pcs" / "2026-01", quote)
    assert found.tcb_info == vectors.read("pcs/2026-01/tcb_info_90c06f000000.json")
    assert found.tcb_info_issuer_chain.startswith(b"-----BEGIN CERTIFICATE-----\n")
    assert found.pck_crl == vectors.read("pcs/2026-01/pck_crl_platform.crl")
    assert replace(found) == found
