"""A tenant's key is read from a private file of its form, and from nothing else; no error says anything of the key."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from affiant.attestation.records.sealed_disclosures_key import (
    DisclosureKeyMalformed,
    disclosure_key_file,
    read_disclosure_key,
)

KEY = bytes(range(32))


def written(place: Path, data: bytes, mode: int = 0o600) -> Path:
    place.write_bytes(data)
    place.chmod(mode)
    return place


def test_the_key_is_read_as_it_was_written(tmp_path: Path) -> None:
    place = written(tmp_path / "openings.key", disclosure_key_file(KEY))
    assert read_disclosure_key(place).private_bytes_raw() == KEY


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_file_that_others_can_reach_is_refused(tmp_path: Path, mode: int) -> None:
    with pytest.raises(DisclosureKeyMalformed, match="other users"):
        read_disclosure_key(written(tmp_path / "openings.key", disclosure_key_file(KEY), mode))


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{}",
        KEY,
        b'{"key":"AA","typ":"affiant-openings-key/1"}',
        disclosure_key_file(KEY).replace(b"/1", b"/2"),
        disclosure_key_file(KEY).replace(b'"}', b'","x":1').replace(b"affiant-", b""),
        b'{"key":1,"typ":"affiant-openings-key/1"}',
        b"[" * 5000,
    ],
)
def test_another_form_is_refused_without_a_word_of_it(tmp_path: Path, content: bytes) -> None:
    with pytest.raises(DisclosureKeyMalformed) as refused:
        read_disclosure_key(written(tmp_path / "openings.key", content))
    assert refused.value.__cause__ is None and refused.value.__context__ is None
    assert "AAECAw" not in str(refused.value)


def test_links_pipes_and_what_is_not_there_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(written(tmp_path / "openings.key", disclosure_key_file(KEY)))
    os.mkfifo(tmp_path / "pipe", 0o600)
    for name in ("link", "pipe", "absent", "."):
        with pytest.raises(DisclosureKeyMalformed):
            read_disclosure_key(tmp_path / name)
