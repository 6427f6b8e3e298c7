"""The skeleton: what is shown, where mount points are made, and what is refused as a root."""

import os

import pytest
from tests.raising import raises_code

from affiant.errors import ConfigurationError
from affiant.sandbox.isolation.plan.errors import (
    CommandNotRun,
    LimitExceeded,
    SandboxFailed,
    error_from_json,
)
from affiant.sandbox.isolation.plan.plan import Access, DirectoryRoot, FileGrant, plan_sandbox
from affiant.sandbox.isolation.plan.rootfs import CA_BUNDLE_AT, Shown, build_root, check_runtime, etc_files


def built(tmp_path, *entries, **arguments):
    plan = plan_sandbox("s", [FileGrant(path, access) for path, access in entries], **arguments)
    at = tmp_path / "root"
    at.mkdir()
    return at, build_root(plan, at=at, ca_bundle=b"PEM", hosts={"gateway.affiant.internal": "127.0.0.2"})


def test_of_the_machine_only_usr_is_shown(tmp_path):
    at, shown = built(tmp_path, ("/w/deep", Access.READ_WRITE))
    assert shown == (Shown("/usr", "/usr"),)
    assert (at / "w" / "deep").is_dir()
    assert (at / "etc" / "ssl" / "certs" / "ca-certificates.crt").read_bytes() == b"PEM"
    assert (at / "etc" / "ssl" / "cert.pem").readlink().as_posix() == CA_BUNDLE_AT
    for link in (at / "etc" / "alternatives").iterdir():
        assert link.readlink().is_relative_to("/usr")


def test_etc_names_no_user_of_the_machine():
    passwd = etc_files(hostname="h", ca_bundle=b"", hosts={})["passwd"].decode()
    assert [line.split(":")[0] for line in passwd.splitlines()] == ["root", "agent", "nobody"]


@pytest.fixture
def image(tmp_path):
    image = tmp_path / "image"
    for name in ("usr/bin", "var/cache/x", "srv/data", "proc/1", "etc", "dev"):
        (image / name).mkdir(parents=True)
    (image / "srv" / "file").write_text("x")
    (image / "bin").symlink_to("usr/bin")
    return image


def test_an_image_is_shown_whole_where_no_mount_point_is_missing(tmp_path, image):
    _, shown = built(tmp_path, ("/var/cache", Access.READ_WRITE), rootfs=DirectoryRoot(str(image)))
    assert {item.target for item in shown} == {"/usr", "/var", "/srv"}


def test_a_directory_without_the_mount_point_is_rebuilt_around_it(tmp_path, image):
    at, shown = built(tmp_path, ("/var/log", Access.READ_WRITE), rootfs=DirectoryRoot(str(image)))
    assert {item.target for item in shown} == {"/usr", "/var/cache", "/srv"}
    assert (at / "var" / "log").is_dir()
    assert not (image / "var" / "log").exists()


def test_a_carve_out_covers_a_file_of_the_image(tmp_path, image):
    at, shown = built(tmp_path, ("/srv/file", Access.NONE), rootfs=DirectoryRoot(str(image)))
    assert "/srv/file" not in {item.target for item in shown}
    assert (at / "srv" / "file").is_dir()


def test_a_link_of_the_image_is_no_mount_point(tmp_path, image):
    (image / "data").symlink_to("/etc")
    with raises_code("isolation.plan", match="link of the root"):
        built(tmp_path, ("/data/x", Access.READ_WRITE), rootfs=DirectoryRoot(str(image)))


def test_pipes_and_devices_of_an_image_are_not_shown(tmp_path, image):
    os.mkfifo(image / "pipe")
    _, shown = built(tmp_path, rootfs=DirectoryRoot(str(image)))
    assert "/pipe" not in {item.target for item in shown}


@pytest.mark.parametrize("root", ["/", "relative", "/nowhere", "/proc"])
def test_what_is_no_unpacked_system_is_no_root(tmp_path, root):
    with raises_code("isolation.plan"):
        built(tmp_path, rootfs=DirectoryRoot(root))


@pytest.mark.parametrize("path", ["/", "/usr", "/nowhere", "/proc"])
def test_a_system_is_no_runtime(path):
    with raises_code("isolation.plan"):
        check_runtime(path)


def test_a_runtime_is_shown_where_it_was_promised(tmp_path):
    (tmp_path / "env" / "lib").mkdir(parents=True)
    (tmp_path / "link").symlink_to("env")
    _, shown = built(tmp_path, runtime=str(tmp_path / "link"))
    assert Shown("/opt/runtime", str(tmp_path / "env")) in shown


def test_packages_of_node_are_found_from_every_folder_and_an_images_own_come_first(tmp_path, image):
    (tmp_path / "env" / "lib" / "node_modules").mkdir(parents=True)
    at, _ = built(tmp_path, runtime=str(tmp_path / "env"))
    assert (at / "node_modules").readlink().as_posix() == "/opt/runtime/lib/node_modules"
    (image / "node_modules").mkdir()
    (tmp_path / "other").mkdir()
    at, shown = built(tmp_path / "other", runtime=str(tmp_path / "env"), rootfs=DirectoryRoot(str(image)))
    assert Shown("/node_modules", str(image / "node_modules")) in shown
    assert not (at / "node_modules").is_symlink()


def test_a_refusal_crosses_the_socket_with_its_class_and_facts():
    sent = CommandNotRun("m", exit_code=126)
    back = error_from_json(sent.to_json())
    assert (type(back), str(back), back.exit_code) == (CommandNotRun, str(sent), 126)
    for kind, code in ((LimitExceeded, None), (ConfigurationError, "isolation.plan")):
        fact = kind("m", code=code, expected="e", found="f", hint="h", where="w")
        there = error_from_json(fact.to_json())
        assert (type(there), there.code, str(there)) == (kind, fact.code, str(fact))
    unknown = error_from_json({"code": "no.such", "message": 7})
    assert (type(unknown), unknown.code) == (SandboxFailed, "isolation.failed")
