"""Anchors are given as they are, once, and no link is followed."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from tests.attestation.log_builder import write

from affiant.attestation.log.publish.anchor_source import AnchorSource
from affiant.attestation.log_reading.errors import PathRefused


def test_each_is_given_until_it_is_published_and_again_when_it_changed(tmp_path: Path) -> None:
    source = AnchorSource(tmp_path / "anchors")
    assert list(source.changed()) == []
    write(tmp_path / "anchors/300.tsr", b"token")
    write(tmp_path / "anchors/300.note", b"note")
    write(tmp_path / "anchors/.draft.new", b"no anchor")
    both = [("anchors/300.note", b"note"), ("anchors/300.tsr", b"token")]
    assert list(source.changed()) == both == list(source.changed())
    source.published("anchors/300.note")
    assert list(source.changed()) == both[1:]
    source.published("anchors/300.tsr")
    write(tmp_path / "anchors/300.tsr", b"token, renewed")
    assert list(source.changed()) == [("anchors/300.tsr", b"token, renewed")]
    source.forget()
    assert len(list(source.changed())) == 2


@pytest.mark.parametrize("make", [lambda path: path.symlink_to("/etc/passwd"), os.mkfifo, os.mkdir])
def test_what_is_no_file_is_refused_and_nothing_waits(tmp_path: Path, make) -> None:
    make(tmp_path / "1.note")
    with pytest.raises(PathRefused):
        list(AnchorSource(tmp_path).changed())
