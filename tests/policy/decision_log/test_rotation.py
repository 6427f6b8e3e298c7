"""Decision logs that grew: set aside in order, found in order, and nothing deleted that nobody asked to delete."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from affiant.policy.decision_log.file import DecisionFileRefused, open_decision_file
from affiant.policy.decision_log.rotation import MAX_SIZE, RotatingLog, Rotation, open_rotated, rotated_logs

SMALL = Rotation(size=4)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def write(path: Path, text: bytes) -> Path:
    path.write_bytes(text)
    path.chmod(0o600)
    return path


def names(path: Path) -> list[str]:
    return [each.name for each in rotated_logs(path)]


def test_a_log_is_set_aside_once_it_has_grown_and_not_before(path: Path) -> None:
    for text, aside in ((b"ab\n", 0), (b"abc\n", 1), (b"abcd\n", 2)):
        write(path, text)
        os.close(open_rotated(path, SMALL))
        assert len(rotated_logs(path)) == aside
    assert [each.read_bytes() for each in rotated_logs(path)] == [b"abc\n", b"abcd\n"]
    assert names(path) == ["decisions.jsonl.000001", "decisions.jsonl.000002"]
    assert path.read_bytes() == b""
    assert path.stat().st_mode & 0o777 == 0o600


def test_all_are_kept_unless_a_number_is_asked_for_and_then_the_newest_are(path: Path) -> None:
    for number in range(1, 13):
        os.close(open_rotated(write(path, b"%04d\n" % number), SMALL))
    assert len(rotated_logs(path)) == 12
    os.close(open_rotated(write(path, b"0013\n"), Rotation(size=4, keep=2)))
    assert [each.read_bytes() for each in rotated_logs(path)] == [b"0012\n", b"0013\n"]
    os.close(open_rotated(write(path, b"0014\n"), SMALL))
    assert names(path)[-1] == "decisions.jsonl.000014"  # a number is never given twice


def test_only_files_that_were_set_aside_count_as_such(path: Path, tmp_path: Path) -> None:
    for name in ("decisions.jsonl.1", "decisions.jsonl.gz", "other.jsonl.000009", "decisions.jsonl.00000x"):
        (tmp_path / name).touch()
    (tmp_path / "decisions.jsonl.000003").mkdir()
    (tmp_path / "decisions.jsonl.000004").symlink_to(tmp_path / "decisions.jsonl.1")
    (tmp_path / "decisions.jsonl.1000000").touch()
    assert names(path) == ["decisions.jsonl.1000000"]
    os.close(open_rotated(write(path, b"abc\n"), Rotation(size=4, keep=1)))
    assert names(path) == ["decisions.jsonl.1000001"]
    assert (tmp_path / "decisions.jsonl.1").exists()
    assert rotated_logs(tmp_path / "none" / "log") == ()
    assert rotated_logs(path / "log") == ()


def test_what_stands_in_the_way_is_not_written_over(path: Path, tmp_path: Path) -> None:
    (tmp_path / "decisions.jsonl.000001").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DecisionFileRefused, match="cannot be set aside"):
        open_rotated(write(path, b"abc\n"), SMALL)
    assert path.read_bytes() == b"abc\n"
    assert (tmp_path / "decisions.jsonl.000001").is_symlink()
    os.close(open_decision_file(path))  # its lock was given back


def test_a_log_that_another_process_writes_is_not_set_aside(path: Path) -> None:
    held = open_decision_file(write(path, b"abc\n"))
    with pytest.raises(DecisionFileRefused, match="another process"):
        open_rotated(path, SMALL)
    os.close(held)
    assert rotated_logs(path) == ()


def test_a_log_that_is_written_for_long_is_followed_from_file_to_file(path: Path) -> None:
    log = RotatingLog(path, Rotation(size=4, keep=1))
    for text in (b"one\n", b"two\n", b"three\n"):
        assert not log.due()
        os.write(log.descriptor, text)
        assert log.due()
        fresh = log.begin()
        os.write(log.descriptor, b"late\n")  # by whoever has not been told yet
        before = log.descriptor
        log.follow(fresh)
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(before)
    assert [each.read_bytes() for each in rotated_logs(path)] == [b"three\nlate\n"]
    log.close()
    log.close()


def test_a_log_that_somebody_moved_is_begun_anew_under_its_name(path: Path, tmp_path: Path) -> None:
    log = RotatingLog(path, Rotation())
    os.write(log.descriptor, b"before\n")
    path.rename(tmp_path / "moved")
    assert log.due()
    os.write(log.descriptor, b"meanwhile\n")
    log.follow(log.begin())
    os.write(log.descriptor, b"after\n")
    assert (tmp_path / "moved").read_bytes() == b"before\nmeanwhile\n"
    assert (path.read_bytes(), rotated_logs(path), log.due()) == (b"after\n", (), False)
    log.close()


def test_a_file_that_cannot_be_begun_is_tried_again_and_nothing_is_lost(path: Path) -> None:
    log = RotatingLog(path, SMALL)
    os.write(log.descriptor, b"one\n")
    path.rename(path.with_name("moved"))
    write(path, b"").chmod(0o644)  # as logrotate's create might
    for _ in range(2):
        assert log.due()
        with pytest.raises(DecisionFileRefused, match="others can reach"):
            log.begin()
    os.write(log.descriptor, b"two\n")
    path.chmod(0o600)
    log.follow(log.begin())
    assert path.with_name("moved").read_bytes() == b"one\ntwo\n"
    assert not log.due()
    log.close()


@pytest.mark.parametrize(("size", "keep"), [(0, None), (MAX_SIZE + 1, None), (1, 0), (1, -1)])
def test_a_rotation_that_would_keep_nothing_or_never_happen_is_refused(size: int, keep: int | None) -> None:
    with pytest.raises(DecisionFileRefused):
        Rotation(size, keep)
