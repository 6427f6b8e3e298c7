"""What a path leads to: a regular file below the folder, read once, or nothing. Whoever writes there is hostile."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from affiant.gateway.tool_gate import path_content
from affiant.gateway.tool_gate.path_content import read_paths
from affiant.policy.approvals.action import MAX_ACTION
from affiant.policy.approvals.errors import ActionUnshowable


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "folder"
    (place / "deep").mkdir(parents=True)
    for name, content in (("a.yaml", b"a: 1\n"), ("deep/b.yaml", b"b: 2\n"), ("empty", b"")):
        (place / name).write_bytes(content)
    outside = tmp_path / "outside"
    outside.write_bytes(b"a secret")
    for each in (outside, place, *place.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    yield place


def read(folder: Path, *names: str) -> list[bytes]:
    found = read_paths(
        [str(folder)], [(f"file[{place}]", f"{folder}/{name}") for place, name in enumerate(names)]
    )
    return [each.content for each in found]


def refused(folder: Path, *names: str) -> str:
    with pytest.raises(ActionUnshowable) as caught:
        read(folder, *names)
    return caught.value.message


def test_files_below_the_folder_are_read(folder: Path) -> None:
    assert read(folder, "a.yaml", "deep/b.yaml", "empty", "a.yaml") == [b"a: 1\n", b"b: 2\n", b"", b"a: 1\n"]
    nested = [str(folder), str(folder / "deep"), "/"]
    assert read_paths(nested, [("file", f"{folder}/deep/b.yaml")])[0].content == b"b: 2\n"
    (bound,) = read_paths(["/nowhere", str(folder)], [("file", f"{folder}/a.yaml")])
    assert (bound.argument, bound.path, bound.content) == ("file", f"{folder}/a.yaml", b"a: 1\n")


@pytest.mark.parametrize(
    "make",
    [
        lambda place: place.symlink_to("a.yaml"),
        lambda place: place.symlink_to("../outside"),
        lambda place: place.symlink_to("/etc/passwd"),
        lambda place: place.symlink_to("/proc/self/root/etc/passwd"),
        lambda place: place.symlink_to("missing"),
    ],
)
def test_no_link_is_followed(folder: Path, make) -> None:
    make(folder / "link")
    assert "symbolic links" in refused(folder, "link")


@pytest.mark.parametrize("name", ["../outside", "deep/../../outside", "deep/../a.yaml/../../outside"])
def test_no_path_leaves_the_folder(folder: Path, name: str) -> None:
    """A profile takes no such spelling; the kernel does not either."""
    assert refused(folder, name)


def test_a_folder_that_is_a_link_is_not_entered(folder: Path, tmp_path: Path) -> None:
    (folder / "up").symlink_to("..")
    assert refused(folder, "up/outside")
    (tmp_path / "other").symlink_to(folder)
    assert refused(tmp_path / "other", "a.yaml")
    assert "symbolic links" in refused(tmp_path / "other" / "deep", "b.yaml"), "nor one above it"


@pytest.mark.parametrize("path", ["/etc/passwd", "{}2/a.yaml", "{}", "/"])
def test_what_lies_elsewhere_is_not_read(folder: Path, path: str) -> None:
    (folder.parent / "folder2").mkdir()
    (folder.parent / "folder2" / "a.yaml").write_bytes(b"x")
    for folders in ([str(folder)], []):
        with pytest.raises(ActionUnshowable, match="in none of the folders"):
            read_paths(folders, [("file", path.format(folder))])


def test_pipes_sockets_devices_and_folders_are_no_content_and_hold_nobody_up(folder: Path) -> None:
    os.mkfifo(folder / "pipe")
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(str(folder / "socket"))
    names = ["pipe", "socket", "deep"]
    if os.geteuid() == 0:
        os.mknod(folder / "null", 0o666 | 0o020000, os.makedev(1, 3))
        names.append("null")
    began = time.monotonic()
    for name in names:
        os.chmod(folder / name, 0o755)
        assert "no regular file" in refused(folder, name)
    assert time.monotonic() - began < 2
    listener.close()


def test_a_file_that_has_another_name_is_not_read(folder: Path) -> None:
    """A hard link is how somebody who may write here has the gateway read for them what they may not."""
    os.link(folder.parent / "outside", folder / "linked")
    assert "other names" in refused(folder, "linked")


def test_what_the_server_could_not_read_is_not_lent_to_it(folder: Path) -> None:
    (folder / "a.yaml").chmod(0o640)
    assert "not everybody may read" in refused(folder, "a.yaml")


def test_what_lies_open_in_a_closed_folder_is_not_lent_either(folder: Path) -> None:
    """The gateway's user may own the folder, and a file in it be open to all: nobody else finds it."""
    (folder / "deep" / "er").mkdir(mode=0o755)
    (folder / "deep" / "er" / "c.yaml").write_bytes(b"c: 3\n")
    (folder / "deep" / "er" / "c.yaml").chmod(0o644)
    assert read(folder, "deep/er/c.yaml") == [b"c: 3\n"]
    (folder / "deep").chmod(0o754)
    for name in ("deep/b.yaml", "deep/er/c.yaml"):
        assert "what is in its folder" in refused(folder, name)
    (folder / "deep").chmod(0o711)
    assert read(folder, "deep/b.yaml", "deep/er/c.yaml") == [b"b: 2\n", b"c: 3\n"]
    folder.chmod(0o750)
    assert "what is in its folder" in refused(folder, "a.yaml")


def test_no_descriptor_is_left_whatever_a_path_leads_to(folder: Path) -> None:
    before = len(os.listdir("/proc/self/fd"))
    (folder / "link").symlink_to("a.yaml")
    (folder / "deep" / "closed").mkdir(mode=0o700)
    assert read(folder, "a.yaml", "deep/b.yaml")
    for name in ("link", "missing", "missing/b", "deep", "deep/closed/b", "a.yaml/b", "deep/../a.yaml"):
        assert refused(folder, name)
    assert len(os.listdir("/proc/self/fd")) == before


def test_what_is_gone_is_not_read(folder: Path) -> None:
    assert "No such file" in refused(folder, "missing")
    assert "Not a directory" in refused(folder, "a.yaml/b")
    folder.rename(folder.parent / "moved")
    assert "No such file" in refused(folder, "a.yaml")


def test_no_more_is_read_than_a_person_reads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with (folder / "huge").open("wb") as file:
        file.truncate(1 << 40)
    (folder / "most").write_bytes(b"x" * MAX_ACTION)
    for name in ("huge", "most"):
        (folder / name).chmod(0o644)
    assert "too large" in refused(folder, "huge")
    assert read(folder, "most") == [b"x" * MAX_ACTION]
    assert "too large" in refused(folder, "most", "a.yaml"), "of all of them together"
    assert "too many" in refused(folder, *["empty"] * 65)
    monkeypatch.setattr(path_content, "_require_plain", lambda *_: None)  # as if it grew after that
    assert "too large" in refused(folder, "huge")


def test_a_kernel_that_cannot_do_it_reads_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(path_content, "_OPENAT2", 9999)
    assert "not implemented" in refused(folder, "a.yaml")


def test_whatever_is_swapped_meanwhile_nothing_outside_is_ever_read(folder: Path) -> None:
    """Negative test F1: the file, and a folder above it, are a link at one instant and a file at the next."""
    inside, stop = folder / "deep" / "b.yaml", threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (folder / "l").symlink_to("../../outside")
            os.replace(folder / "l", inside)
            (folder / "n").write_bytes(b"b: 2\n")
            (folder / "n").chmod(0o644)
            os.replace(folder / "n", inside)
            (folder / "deep").rename(folder / "away")
            (folder / "deep").symlink_to("..")
            (folder / "deep").unlink()
            (folder / "away").rename(folder / "deep")

    (folder.parent / "b.yaml").write_bytes(b"outside too")
    swapping = threading.Thread(target=swap)
    swapping.start()
    try:
        seen = set()
        for _ in range(3000):
            try:
                seen |= set(read(folder, "deep/b.yaml"))
            except ActionUnshowable:
                continue
    finally:
        stop.set()
        swapping.join()
    assert seen <= {b"b: 2\n"}


def test_one_path_is_read_once(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole, seen = path_content._whole, []

    def counted(*arguments: object) -> bytes:
        (folder / "a.yaml").write_bytes(b"a: %d\n" % len(seen))
        seen.append(whole(*arguments))
        return seen[-1]

    monkeypatch.setattr(path_content, "_whole", counted)
    assert read(folder, "a.yaml", "a.yaml") == [b"a: 0\n"] * 2
    assert len(seen) == 1


def test_a_file_mounted_into_the_folder_is_not_read(folder: Path) -> None:
    """A mount can hold a read up for ever, or lead anywhere; `/proc` below a folder stands for one."""
    with pytest.raises(ActionUnshowable, match="cross-device"):
        read_paths(["/"], [("file", "/proc/self/environ")])
