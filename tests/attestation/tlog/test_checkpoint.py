"""Checkpoints: one spelling of each, and nothing that only looks like one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tlog.test_note import EXAMPLE_CHECKPOINT

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import CheckpointMalformed
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.tree import EMPTY_ROOT, MAX_SIZE

ROOT = "CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I="
TEXT = f"example.com/behind-the-sofa\n20852163\n{ROOT}\n"


def test_the_published_example_is_read() -> None:
    found = parse_checkpoint(parse_note(EXAMPLE_CHECKPOINT).text)
    assert (found.origin, found.size) == ("example.com/behind-the-sofa", 20852163)
    assert found.to_text() == TEXT


@pytest.mark.parametrize(
    "text",
    [
        "",
        TEXT[:-1],
        TEXT + "\n",
        TEXT.replace("20852163", "020852163"),
        TEXT.replace("20852163", "+20852163"),
        TEXT.replace("20852163", "-1"),
        TEXT.replace("20852163", "٣"),
        TEXT.replace("20852163", str(MAX_SIZE + 1)),
        TEXT.replace("20852163", "9" * 5000),
        TEXT.replace("20852163", "0"),
        TEXT.replace(ROOT, ROOT[:-1]),
        TEXT.replace(ROOT, ROOT.replace("I=", "J=")),
        TEXT.replace(ROOT, "AAAA"),
        TEXT.replace("example.com/behind-the-sofa", ""),
        TEXT.replace("behind", "be\u202ehind"),
        TEXT.replace("behind", "x" * 300),
        TEXT + "more\n" * 17,
        "origin\n1\n",
    ],
)
def test_what_is_no_checkpoint_is_refused(text: str) -> None:
    with pytest.raises(CheckpointMalformed):
        parse_checkpoint(text)


def test_an_empty_tree_has_one_root() -> None:
    assert parse_checkpoint(Checkpoint("o", 0, EMPTY_ROOT).to_text()).size == 0
    with pytest.raises(CheckpointMalformed):
        Checkpoint("o", 0, bytes(32))


def test_extension_lines_are_kept_as_they_stand() -> None:
    found = parse_checkpoint(TEXT + "more\n")
    assert found.extensions == ("more",)
    assert found.to_text() == TEXT + "more\n"


@given(st.text(max_size=120))
def test_what_is_read_is_written_back(text: str) -> None:
    for each in (text, TEXT + text, text + TEXT):
        try:
            assert parse_checkpoint(each).to_text() == each
        except CheckpointMalformed:
            pass
