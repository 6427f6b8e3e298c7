"""The record that lets the next command clean up, and that it never hits the wrong process."""

import os
import subprocess

import pytest

from affiant.sandbox.isolation.plan.leftover_record import (
    ProcessName,
    RunnerRecord,
    read_record,
    remove_record,
    write_record,
)
from affiant.sandbox.isolation.plan.linux import process_start_time
from affiant.sandbox.isolation.runner.reconcile import reap_leftovers

ME = ProcessName(os.getpid(), process_start_time(os.getpid()))
GONE = ProcessName(os.getpid(), 1)


@pytest.fixture
def victim():
    with subprocess.Popen(["sleep", "60"]) as process:
        yield process
        process.kill()


def test_a_record_is_read_as_it_was_written(tmp_path):
    for record in (
        RunnerRecord(ME, GONE),
        RunnerRecord(ME, ME, GONE),
        RunnerRecord(ME, ME, GONE, "/x/affiant-0"),
    ):
        write_record(tmp_path, record)
        assert read_record(tmp_path) == record
    assert (tmp_path / "isolation").stat().st_mode & 0o777 == 0o700
    remove_record(tmp_path)
    remove_record(tmp_path)
    assert read_record(tmp_path) is None


@pytest.mark.parametrize(
    "text", ["", "{}", "[]", '{"runner":{"pid":1,"started":1}}', '{"owner":null,"runner":"x"}', "x" * 5000]
)
def test_what_is_no_record_is_nobody(tmp_path, text):
    (tmp_path / "one" / "isolation").mkdir(parents=True)
    (tmp_path / "one" / "isolation" / "record.json").write_text(text)
    assert read_record(tmp_path / "one") is None
    assert reap_leftovers(tmp_path) == ()


def test_a_link_is_no_record(tmp_path):
    for name in ("a", "b", "c"):
        (tmp_path / name).mkdir()
    write_record(tmp_path / "a", RunnerRecord(ME, ME))
    (tmp_path / "b" / "isolation").mkdir()
    (tmp_path / "b" / "isolation" / "record.json").symlink_to(tmp_path / "a" / "isolation" / "record.json")
    (tmp_path / "c" / "isolation").symlink_to(tmp_path / "a" / "isolation")
    assert read_record(tmp_path / "b") is None
    assert read_record(tmp_path / "c") is None
    with pytest.raises(OSError):
        write_record(tmp_path / "c", RunnerRecord(GONE, GONE))
    assert read_record(tmp_path / "a") == RunnerRecord(ME, ME)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="another user's file needs root")
def test_another_users_record_kills_nobody(tmp_path, victim):
    (tmp_path / "one").mkdir()
    write_record(tmp_path / "one", RunnerRecord(ProcessName.of(victim.pid), GONE))
    os.chown(tmp_path / "one" / "isolation" / "record.json", 12345, 12345)
    assert reap_leftovers(tmp_path) == ()
    assert victim.poll() is None


def test_a_reused_pid_is_never_killed(tmp_path, victim):
    (tmp_path / "one").mkdir()
    other = ProcessName(victim.pid, process_start_time(victim.pid) + 1)
    write_record(tmp_path / "one", RunnerRecord(other, GONE, other))
    assert reap_leftovers(tmp_path) == ("one",)
    assert victim.poll() is None


def test_a_runner_without_its_owner_is_killed(tmp_path, victim):
    (tmp_path / "one").mkdir()
    write_record(tmp_path / "one", RunnerRecord(ProcessName.of(victim.pid), GONE))
    assert reap_leftovers(tmp_path) == ("one",)
    assert victim.wait(5) == -9


def test_a_session_that_lives_is_left_alone(tmp_path, victim):
    (tmp_path / "one").mkdir()
    write_record(tmp_path / "one", RunnerRecord(ProcessName.of(victim.pid), ME))
    assert reap_leftovers(tmp_path) == ()
    assert victim.poll() is None


def test_a_process_that_waits_to_be_reaped_counts_as_gone():
    with subprocess.Popen(["true"]) as process:
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert ProcessName.of(process.pid) is None


def test_no_folder_is_nothing_to_reap(tmp_path):
    assert reap_leftovers(tmp_path / "nowhere") == ()
