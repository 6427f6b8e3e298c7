"""The file of a decision log: nobody else's, whole lines only, and no decision without its line."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest

from affiant.policy.decision_log.file import (
    DecisionFile,
    DecisionFileRefused,
    DecisionsUnavailable,
    open_decision_file,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "decisions.jsonl"


def test_lines_of_several_runs_stand_one_after_the_other_and_nobody_else_can_read_them(path: Path):
    for line in (b"one\n", b"two\n"):
        file = DecisionFile(open_decision_file(path))
        file.append(line)
        file.close()
    assert path.read_bytes() == b"one\ntwo\n"
    assert path.stat().st_mode & 0o777 == 0o600


def test_what_others_can_reach_is_refused_and_left_as_it_was(path: Path, tmp_path: Path):
    path.write_bytes(b"{}\n")
    path.chmod(0o640)
    with pytest.raises(DecisionFileRefused, match="others can reach"):
        open_decision_file(path)
    path.chmod(0o600)
    os.link(path, tmp_path / "second")
    with pytest.raises(DecisionFileRefused, match="others can reach"):
        open_decision_file(path)
    (tmp_path / "second").unlink()
    (tmp_path / "link").symlink_to(path)
    with pytest.raises(DecisionFileRefused):
        open_decision_file(tmp_path / "link")
    os.mkfifo(tmp_path / "pipe", 0o600)
    with pytest.raises(DecisionFileRefused):
        open_decision_file(tmp_path / "pipe")
    with pytest.raises(DecisionFileRefused, match="not a regular file"):
        open_decision_file(Path("/dev/null"))
    with pytest.raises(DecisionFileRefused):
        open_decision_file(tmp_path)
    with pytest.raises(DecisionFileRefused):
        open_decision_file(tmp_path / "no-folder" / "log")
    assert path.read_bytes() == b"{}\n"


def test_a_log_that_ends_within_a_line_is_not_continued(path: Path):
    path.write_bytes(b'{"agent"')
    path.chmod(0o600)
    with pytest.raises(DecisionFileRefused, match="whole line"):
        open_decision_file(path)


def test_one_writer_at_a_time(path: Path):
    first = DecisionFile(open_decision_file(path))
    with pytest.raises(DecisionFileRefused, match="another process"):
        open_decision_file(path)
    first.close()
    os.close(open_decision_file(path))


def test_a_full_log_takes_nothing_and_stays_full(path: Path):
    file = DecisionFile(open_decision_file(path), most=8)
    file.append(b"1234567\n")
    for line in (b"\n", b""):
        with pytest.raises(DecisionsUnavailable):
            file.append(line)
    file.close()
    assert path.read_bytes() == b"1234567\n"


def test_a_line_that_the_disk_does_not_take_whole_is_taken_back(path: Path):
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = DecisionFile(open_decision_file(path))
    try:
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        file.append(b"1234567\n")
        with pytest.raises(DecisionsUnavailable, match="cannot be written"):
            file.append(b"89abcdef\n")  # two bytes of it fit
        with pytest.raises(DecisionsUnavailable):
            file.append(b"\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        file.close()
    assert path.read_bytes() == b"1234567\n"


def test_a_file_that_somebody_cut_meanwhile_keeps_whole_lines(path: Path):
    """As logrotate's copytruncate does: a part of a line is taken back from the end that there is, and no hole made."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    file = DecisionFile(open_decision_file(path))
    try:
        file.append(b"a" * 50 + b"\n")
        os.truncate(path, 0)
        file.append(b"1234567\n")
        resource.setrlimit(resource.RLIMIT_FSIZE, (10, before[1]))
        with pytest.raises(DecisionsUnavailable, match="cannot be written"):
            file.append(b"89abcdef\n")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
        signal.signal(signal.SIGXFSZ, handler)
        file.close()
    assert path.read_bytes() == b"1234567\n"


def test_lines_go_on_in_the_next_file_and_the_bound_is_that_file_s(path: Path, tmp_path: Path):
    file = DecisionFile(open_decision_file(path), most=8)
    file.append(b"1234567\n")
    file.follow(open_decision_file(tmp_path / "next"))
    file.append(b"2345678\n")
    with pytest.raises(DecisionsUnavailable, match="full"):
        file.append(b"\n")
    file.close()
    assert (path.read_bytes(), (tmp_path / "next").read_bytes()) == (b"1234567\n", b"2345678\n")
    os.close(open_decision_file(path))  # nobody holds it any more


def test_a_log_that_has_failed_does_not_go_on_in_another_file(path: Path, tmp_path: Path):
    file = DecisionFile(open_decision_file(path), most=1)
    with pytest.raises(DecisionsUnavailable):
        file.append(b"12\n")
    descriptor = open_decision_file(tmp_path / "next")
    with pytest.raises(DecisionsUnavailable):
        file.follow(descriptor)
    os.close(descriptor)  # it is ours still
    file.close()


def test_a_closed_file_takes_nothing(path: Path):
    file = DecisionFile(open_decision_file(path))
    file.close()
    file.close()
    with pytest.raises(DecisionsUnavailable):
        file.append(b"1\n")
