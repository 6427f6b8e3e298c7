"""Collateral in files: the item that is named, or the only one there; never a guess."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from tests.attestation.quote.collateral.conftest import Recorded, Simulated
from tests.attestation.quote.collateral.pcs_server import url_encoded

from affiant.attestation.quote.collateral.errors import CollateralAbsent, SettingsInvalid
from affiant.attestation.quote.collateral.files import (
    Choice,
    file_names,
    other_files,
    read_collateral,
    read_collateral_path,
)
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.attestation.tdx.quote.errors import CollateralMalformed
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError


@pytest.fixture
def folder(simulated: Simulated, tmp_path: Path) -> Path:
    """As `fetch` writes it."""
    for item, name in file_names(simulated.asked).items():
        (tmp_path / name).write_bytes(getattr(simulated.collateral(), item))
    return tmp_path


def rename(folder: Path, old: str, new: str) -> None:
    (folder / old).rename(folder / new)


def test_what_is_written_is_what_is_read_by_both_readers(folder: Path, simulated: Simulated) -> None:
    for choice in (Choice(), Choice(simulated.asked.fmspc, simulated.asked.authority)):
        assert read_collateral_path(folder, choice) == simulated.collateral()
    assert read_collateral(folder, parse_quote(simulated.quote())) == simulated.collateral()


def test_intels_recorded_folder_is_read_by_choice(recorded: Recorded) -> None:
    choice = Choice(recorded.platform.fmspc, Authority.PLATFORM)
    assert read_collateral_path(recorded.folder, choice) == recorded.collateral()
    with pytest.raises(SettingsInvalid, match="00a06d080000, 90c06f000000") as refused:
        read_collateral_path(recorded.folder, Choice(authority=Authority.PLATFORM))
    assert "--fmspc" in str(refused.value)
    with pytest.raises(SettingsInvalid, match="--ca"):
        read_collateral_path(recorded.folder, Choice(fmspc=recorded.platform.fmspc))


def test_lists_and_chains_are_read_in_every_spelling(folder: Path, simulated: Simulated) -> None:
    items = simulated.collateral()
    pem = b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(items.root_ca_crl) + b"-----END X509 CRL-----\n"
    for name, content in (
        ("der", items.root_ca_crl),
        ("pem", pem),
        ("hex", items.root_ca_crl.hex().encode()),
    ):
        for old in folder.glob("root_ca*"):
            old.unlink()
        (folder / f"root_ca.{name}").write_bytes(content)
        assert read_collateral_path(folder, Choice()) == items
    (folder / "qe_identity_chain.pem").unlink()
    (folder / "qe_identity_chain.txt").write_text(url_encoded(items.qe_identity_issuer_chain) + "\n")
    assert read_collateral_path(folder, Choice()) == items


def test_names_without_a_platform_serve_any(folder: Path, simulated: Simulated) -> None:
    names = file_names(simulated.asked)
    rename(folder, names["tcb_info"], "tcb_info.json")
    rename(folder, names["tcb_info_issuer_chain"], "tcb_info_chain.pem")
    for choice in (Choice(), Choice(simulated.asked.fmspc)):
        assert read_collateral_path(folder, choice) == simulated.collateral()


def test_another_platform_is_never_taken_instead(folder: Path) -> None:
    with pytest.raises(CollateralAbsent, match="lacks an item"):
        read_collateral_path(folder, Choice(bytes.fromhex("00a06d080000")))


def test_each_missing_item_is_named(folder: Path, simulated: Simulated) -> None:
    for name in file_names(simulated.asked).values():
        content = (folder / name).read_bytes()
        (folder / name).unlink()
        with pytest.raises(CollateralAbsent, match="lacks an item"):
            read_collateral_path(folder, Choice())
        (folder / name).write_bytes(content)


def test_two_files_for_one_item_are_refused(folder: Path, simulated: Simulated) -> None:
    (folder / "root_ca_crl.der").write_bytes(simulated.collateral().root_ca_crl)
    with pytest.raises(CollateralAbsent, match="two files"):
        read_collateral_path(folder, Choice())
    (folder / "root_ca_crl.der").rename(folder / "root_ca.crl")
    with pytest.raises(CollateralAbsent, match="two files"):
        read_collateral_path(folder, Choice())


def test_a_list_that_is_none_is_refused(folder: Path) -> None:
    (folder / "root_ca_crl.crl").write_bytes(b"<html>")
    with pytest.raises(CollateralMalformed, match="revocation list"):
        read_collateral_path(folder, Choice())


@pytest.mark.parametrize("content", [b"\xff\xfe", b"", b"-----BEGIN%20", b"x" * 40_000])
def test_a_chain_that_is_none_is_a_refusal(folder: Path, content: bytes) -> None:
    (folder / "qe_identity_chain.pem").write_bytes(content)
    with pytest.raises(AffiantError):
        read_collateral_path(folder, Choice())


def test_files_that_a_reader_would_confuse_are_known() -> None:
    platform = Platform.named("90c06f000000", Authority.PLATFORM)
    own = frozenset(file_names(platform).values())
    assert other_files(platform, own) == ()
    foreign = frozenset(("tcb_info_00a06d080000.json", "pck_crl_processor.crl", "notes.txt"))
    assert other_files(platform, own | foreign) == ()
    confusing = frozenset(("collateral.json", "ROOT_CA_CRL.der", "tcb_info_90c06f000000_chain.txt"))
    assert other_files(platform, own | confusing) == tuple(sorted(confusing))
