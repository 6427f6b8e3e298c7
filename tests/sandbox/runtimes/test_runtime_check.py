"""An environment works inside, or the error says which part of it lies elsewhere. Nothing of it is executed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.sandbox.runtimes.runtime_check import require_program, require_usable

HOST = Path("/")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """An image with a Python 3.11, its commands behind links as in Debian."""
    image = tmp_path / "image"
    for folder in ("usr/bin", "usr/lib", "etc/alternatives"):
        (image / folder).mkdir(parents=True)
    (image / "usr" / "bin" / "python3.11").touch(mode=0o755)
    (image / "usr" / "bin" / "python3").symlink_to("python3.11")
    (image / "usr" / "bin" / "env").touch(mode=0o755)
    (image / "usr" / "bin" / "node").symlink_to("/etc/alternatives/node")
    (image / "etc" / "alternatives" / "node").symlink_to("/usr/bin/env")
    (image / "bin").symlink_to("usr/bin")
    return image


@pytest.fixture
def environment(tmp_path: Path) -> Path:
    """What ``/usr/bin/python3 -m venv`` makes."""
    folder = tmp_path / "env"
    packages(folder, "3.11")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to("/usr/bin/python3")
    (folder / "bin" / "python3").symlink_to("python")
    (folder / "pyvenv.cfg").write_text("home = /usr/bin\ninclude-system-site-packages = false\n")
    return folder


def packages(folder: Path, version: str) -> Path:
    place = folder / "lib" / f"python{version}" / "site-packages"
    place.mkdir(parents=True)
    return place


def link(folder: Path, name: str, target: str) -> None:
    (folder / "bin" / name).unlink(missing_ok=True)
    (folder / "bin" / name).symlink_to(target)


def test_an_environment_of_the_roots_own_python_works(environment, root):
    require_usable(environment, root=root)
    link(environment, "node", "/bin/node")
    require_usable(environment, root=root)


@pytest.mark.parametrize(
    "target",
    [
        "/home/u/.pyenv/versions/3.11.0/bin/python3.11",
        "/home/user/.local/share/uv/python/bin/python3.11",
        "../../usr/bin/python3",
        "/usr/../root/python3",
        "python",
        "/etc/python3",
        "/opt/python3",
        "/usr/bin/python3/x",
        "/usr/" + 300 * "a",
        40 * "usr/",
    ],
)
def test_an_interpreter_that_the_sandbox_does_not_show_is_named(environment, root, target):
    link(environment, "python", target)
    with raises_code("runtime.interpreter", match="bin/python"):
        require_usable(environment, root=root)


def test_a_link_that_leads_out_of_the_environment_and_back_is_followed_as_inside(environment, root):
    outside = str(environment / "bin" / "python")
    link(environment, "python3", outside)  # works on this machine; inside, that path is not there
    with raises_code("runtime.interpreter", match="does not show"):
        require_usable(environment, root=root)
    link(environment, "python3", "/opt/runtime/bin/python")
    require_usable(environment, root=root)


def test_a_copied_interpreter_without_its_library_is_named(environment, root):
    (environment / "bin" / "python").unlink()
    (environment / "bin" / "python").write_bytes(b"\x7fELF")
    (environment / "pyvenv.cfg").write_text("home = /home/u/.pyenv/versions/3.11.0/bin\n")
    with raises_code("runtime.interpreter", match=r"home = /home/u/\.pyenv"):
        require_usable(environment, root=root)


@pytest.mark.parametrize("text", ["", "home\n", "home =\n", "home = \0\n"])
def test_a_virtual_environment_without_a_home_is_none(environment, root, text):
    (environment / "pyvenv.cfg").write_text(text)
    with raises_code("runtime.interpreter"):
        require_usable(environment, root=root)


def test_packages_of_another_python_are_named(environment, root):
    (environment / "lib" / "python3.11").rename(environment / "lib" / "python3.13")
    with raises_code("runtime.python_version", match=r"python3\.11/site-packages; found .*python3\.13"):
        require_usable(environment, root=root)
    packages(environment, "3.11")
    require_usable(environment, root=root)


def test_a_package_in_editable_mode_is_named(environment, root):
    about = environment / "lib" / "python3.11" / "site-packages" / "mine-1.0.dist-info"
    about.mkdir()
    for noted, works in (
        ({"url": "file:///home/u/mine", "dir_info": {"editable": True}}, False),
        ({"url": "file:///home/u/mine", "dir_info": {}}, True),
        ([], True),
    ):
        (about / "direct_url.json").write_text(json.dumps(noted))
        if works:
            require_usable(environment, root=root)
        else:
            with raises_code("runtime.outside", match=r"mine-1\.0\.dist-info.*editable"):
                require_usable(environment, root=root)


def test_a_package_that_is_a_link_to_a_cache_is_named(environment, root):
    place = environment / "lib" / "python3.11" / "site-packages"
    (place / "inner").mkdir()
    (place / "inner" / "__init__.py").symlink_to("../other.py")
    (place / "other.py").touch()
    require_usable(environment, root=root)
    (place / "inner" / "__init__.py").unlink()
    (place / "inner" / "__init__.py").symlink_to("/home/u/.cache/uv/archive/x/__init__.py")
    with raises_code("runtime.outside", match="inner.*link"):
        require_usable(environment, root=root)


def test_packages_without_a_virtual_environment_stay_the_callers_business(tmp_path, root):
    packages(tmp_path / "env", "3.13")
    require_usable(tmp_path / "env", root=root)


def test_what_is_no_environment_is_refused_as_the_runner_would(tmp_path, root):
    with raises_code("isolation.plan"):
        require_usable(tmp_path, root=root)


@pytest.mark.parametrize(
    ("first", "works"),
    [
        (b"#!/usr/bin/env python3\n", True),
        (b"#! /opt/runtime/bin/python3 -I\n", True),
        (b"#!/bin/env sh\n", True),
        (b"\x7fELF", True),
        (b"", True),
        (b"#!\n", True),
        (b"#!/home/u/env/bin/python3\n", False),
        (b"#!python\n", False),
        (b"#!/bin/env\n'''exec' /home/u/env/bin/python3 \"$0\" \"$@\"\n' '''\n", False),
        (b"#!/bin/env\n'''exec' \"/home/u/env/bin/python3\" \"$0\" \"$@\"\n' '''\n", False),
    ],
)
def test_a_program_that_begins_with_a_path_outside_is_named(environment, root, first, works):
    (environment / "bin" / "tool").write_bytes(first)
    for program in ("tool", "/opt/runtime/bin/tool"):
        if works:
            require_program(environment, program, root=root)
        else:
            with raises_code("runtime.program", match="bin/tool"):
                require_program(environment, program, root=root)


@pytest.mark.parametrize("program", ["absent", "./tool", "/usr/bin/env", "", "..", "a\0b", "x/../tool"])
def test_a_program_that_is_not_the_environments_is_not_judged(environment, root, program):
    (environment / "bin" / "tool").write_bytes(b"#!/nowhere/python\n")
    require_program(environment, program, root=root)


def test_a_program_that_is_a_link_out_of_the_environment_is_named(environment, root):
    link(environment, "tool", "/home/u/tool")
    with raises_code("runtime.interpreter", match="bin/tool"):
        require_program(environment, "tool", root=root)


def test_an_environment_of_the_systems_own_python_works_on_this_machine(tmp_path):
    made = subprocess.run(
        ["/usr/bin/python3", "-m", "venv", "--without-pip", tmp_path / "env"], check=False, timeout=60
    )
    if made.returncode != 0:
        pytest.skip("the system's python3 makes no environments")
    require_usable(tmp_path / "env", root=HOST)


def test_an_environment_of_a_python_outside_usr_is_refused_on_this_machine(tmp_path):
    if Path(sys.executable).resolve().is_relative_to("/usr"):
        pytest.skip("this interpreter lies below /usr")
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "env"], check=True, timeout=60)
    with raises_code("runtime.interpreter", match="bin/python"):
        require_usable(tmp_path / "env", root=HOST)
