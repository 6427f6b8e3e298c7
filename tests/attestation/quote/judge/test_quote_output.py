"""A quote's file is written whole or not at all, and never over something else unasked."""

from __future__ import annotations

from pathlib import Path

import pytest

from affiant.attestation.quote.judge.quote_output import OutputRefused, check_output, write_output


def test_a_new_file_is_whole_and_alone(tmp_path: Path) -> None:
    write_output(tmp_path / "quote", b"bytes", force=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("quote", b"bytes")]


def test_the_same_bytes_may_stand_there(tmp_path: Path) -> None:
    for _ in range(2):
        write_output(tmp_path / "quote", b"bytes", force=False)
    assert len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("there", [b"", b"byte", b"bytes and more", b"other"])
def test_other_bytes_are_left_as_they_are_unless_forced(tmp_path: Path, there: bytes) -> None:
    path = tmp_path / "quote"
    path.write_bytes(there)
    with pytest.raises(OutputRefused, match="--force"):
        write_output(path, b"bytes", force=False)
    assert path.read_bytes() == there
    write_output(path, b"bytes", force=True)
    assert path.read_bytes() == b"bytes"
    assert len(list(tmp_path.iterdir())) == 1


def test_a_place_that_cannot_be_written_to_is_refused_before(tmp_path: Path) -> None:
    (tmp_path / "dangling").symlink_to(tmp_path / "nowhere")
    for path in (tmp_path, tmp_path / "missing" / "quote", tmp_path / "dangling", Path("/dev/null")):
        with pytest.raises(OutputRefused):
            check_output(path)
    check_output(tmp_path / "quote")


def test_a_full_disk_leaves_no_half_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("affiant.files.os.fsync", full)
    with pytest.raises(OutputRefused, match="No space"):
        write_output(tmp_path / "quote", b"bytes", force=True)
    assert list(tmp_path.iterdir()) == []


def test_a_file_system_without_links_is_written_to_and_nothing_there_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(Path, "hardlink_to", refuse)
    write_output(tmp_path / "quote", b"bytes", force=False)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("quote", b"bytes")]
    with pytest.raises(OutputRefused, match="--force"):
        write_output(tmp_path / "quote", b"other", force=False)
    assert (tmp_path / "quote").read_bytes() == b"bytes"
