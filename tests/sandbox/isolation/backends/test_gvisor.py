"""What is written for runsc. Pure; the running of it is tested in test_runner and its neighbours."""

from pathlib import Path

import pytest

from affiant.attestation.verdict.trust_file import OLDEST_GVISOR
from affiant.sandbox.isolation.backends import gvisor
from affiant.sandbox.isolation.backends.gvisor import (
    OLDEST_RELEASE,
    PROGRAMS_AT,
    dated_release,
    exec_command,
    list_command,
    oci_config,
    process,
    release_year,
    run_command,
    runsc_release,
)
from affiant.sandbox.isolation.plan.plan import AGENT_UID, Access, FileGrant, plan_sandbox
from affiant.sandbox.isolation.plan.rootfs import Shown

PLAN = plan_sandbox(
    "s",
    [
        FileGrant("/w", Access.READ_WRITE),
        FileGrant("/var/log", Access.READ_ONLY),
        FileGrant("/w/a/b", Access.NONE),
    ],
)
SHOWN = (
    Shown("/usr", "/m/usr"),
    *(Shown(bind.target, f"/m{bind.target}", bind.writable) for bind in PLAN.binds),
)
CONFIG = oci_config(PLAN, SHOWN, root="/r", network="/n", programs="/run/p", first="first")


def mounts():
    return {mount["destination"]: mount for mount in CONFIG["mounts"]}


@pytest.mark.parametrize("made", [CONFIG["process"], process(AGENT_UID, "exec-1")], ids=["first", "command"])
def test_no_process_starts_with_any_power(made):
    assert made["noNewPrivileges"] is True
    assert set(map(tuple, made["capabilities"].values())) == {()}
    assert made["user"]["uid"] == made["user"]["gid"] != 0


def test_the_agent_may_send_the_first_process_no_signal():
    assert CONFIG["process"]["user"]["uid"] != AGENT_UID == process(AGENT_UID, "exec-1")["user"]["uid"]


def test_only_writable_entries_and_scratch_are_writable():
    assert CONFIG["root"] == {"path": "/r", "readonly": True}
    writable = {
        target for target, mount in mounts().items() if mount["type"] == "bind" and "rw" in mount["options"]
    }
    assert writable == {"/w", "/w/a"}
    assert "ro" in mounts()["/w/a/b"]["options"]
    assert mounts()["/w/a/b"]["type"] == "tmpfs"


def test_nothing_is_shown_but_what_is_in_the_plan_and_the_runners_programs():
    shown = {mount["source"]: mount for mount in CONFIG["mounts"] if mount["type"] == "bind"}
    programs = shown.pop("/run/p")
    assert (programs["destination"], "ro" in programs["options"]) == (PROGRAMS_AT, True)
    assert set(shown) == {"/m/usr", "/m/w", "/m/w/a", "/m/var/log"}


def test_inner_mounts_come_after_outer_ones():
    order = [mount["destination"] for mount in CONFIG["mounts"]]
    for number, target in enumerate(order):
        assert not any(earlier.startswith(target + "/") for earlier in order[:number]), target


def test_every_mount_is_without_setuid_and_devices_where_it_can_be():
    for mount in CONFIG["mounts"]:
        assert "nosuid" in mount["options"], mount


def test_every_runsc_command_has_the_same_isolation(tmp_path):
    commands = [
        run_command("runsc", tmp_path),
        exec_command("runsc", tmp_path, "one", report=7),
        list_command("runsc", tmp_path),
    ]
    for flag in (
        *(
            "--network=sandbox",
            "--host-uds=none",
            "--host-fifo=none",
            "--net-raw=false",
        ),
        *("--overlay2=none", "--platform=systrap"),
    ):
        assert all(flag in command for command in commands)


@pytest.mark.parametrize(
    ("text", "year"),
    [
        ("runsc version release-20240729.0", 2024),
        ("runsc version 0.0~20221219.0", 2022),
        ("", 0),
        ("2024", 0),
        ("20249999", 0),
    ],
)
def test_the_year_of_a_release(text, year):
    assert release_year(text) == year


def test_the_trust_file_for_a_simulated_platform_names_a_release_of_the_oldest_year_that_runs():
    """A session under an older gVisor is warned of without a further word of the auditor."""
    assert release_year(OLDEST_GVISOR) == OLDEST_RELEASE
    assert dated_release(OLDEST_GVISOR) == OLDEST_GVISOR


@pytest.mark.parametrize(
    ("text", "release"),
    [
        ("runsc version release-20240729.0", "20240729.0"),
        ("runsc version 0.0~20221219.12-1+b3", "20221219.12"),
        ("runsc version release-20260817.0-12-gabcdef", "20260817.0"),
        ("runsc version VERSION_MISSING", None),
        ("", None),
    ],
)
def test_the_release_as_records_name_it(text, release):
    assert dated_release(text) == release


def test_a_binary_is_asked_for_its_release_once_and_again_when_it_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[str] = []

    def answer(program: str) -> str:
        asked.append(program)
        return f"runsc version release-2024{len(asked):04}.0"

    monkeypatch.setattr(gvisor, "_asked_release", answer)
    program = tmp_path / "runsc"
    program.write_bytes(b"\x7fELF one")
    first = runsc_release(str(program))
    assert runsc_release(str(program)) == first
    program.write_bytes(b"\x7fELF two")
    assert runsc_release(str(program)) != first
    assert len(asked) == 2


@pytest.mark.parametrize("content", [b"#!/bin/sh\nexec other\n", b"", None])
def test_what_is_no_binary_is_asked_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes | None
) -> None:
    answers = iter(["release-20240101.0", "release-20240102.0"])
    monkeypatch.setattr(gvisor, "_asked_release", lambda _: next(answers))
    program = tmp_path / "runsc"
    if content is not None:
        program.write_bytes(content)
    assert runsc_release(str(program)) != runsc_release(str(program))


def test_a_binary_that_did_not_answer_is_asked_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    answers = iter(["", "release-20240101.0"])
    monkeypatch.setattr(gvisor, "_asked_release", lambda _: next(answers))
    program = tmp_path / "runsc"
    program.write_bytes(b"\x7fELF")
    assert [runsc_release(str(program)) for _ in range(2)] == ["", "release-20240101.0"]
