"""A build: what it installs, that it repeats, and what it leaves alone. Wheels are written by hand; no network."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from tests.raising import raises_code
from tests.sandbox.runtimes.wheels import make_wheel

from affiant.sandbox.runtimes.build import build_runtime
from affiant.sandbox.runtimes.build_folder import NOTE, drafted
from affiant.sandbox.runtimes.python_packages import find_interpreter
from affiant.sandbox.runtimes.runtime_check import require_program
from affiant.sandbox.workspace.walk import runtime_digest

PYTHON = Path("/usr/bin/python3")
pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="the sandbox's /usr has no python3")


@pytest.fixture
def wheels(tmp_path: Path) -> Path:
    folder = tmp_path / "wheels"
    make_wheel(folder, "alpha", requires=("beta",), program="alpha-tool")
    make_wheel(folder, "beta", files={"beta/broken.py": "def (:\n"})
    return folder


@pytest.fixture
def requirements(tmp_path: Path) -> Path:
    (tmp_path / "requirements.txt").write_text("alpha\n")
    return tmp_path / "requirements.txt"


def environment(wheels: Path, **more: str) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PIP_", "npm_"))}
    return {
        **kept,
        "PIP_CONFIG_FILE": "/dev/null",
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(wheels),
        **more,
    }


def build(*requirements: Path, place: Path, wheels: Path, rebuild: bool = False, **more):
    lines: list[str] = []
    built, made = build_runtime(
        requirements,
        place,
        python=PYTHON,
        extras=(),
        rebuild=rebuild,
        environment=environment(wheels, **more),
        progress=lines.append,
    )
    return built, made, lines


def test_what_is_asked_for_and_what_it_needs_is_there_and_works_at_its_place_inside(
    tmp_path, wheels, requirements
):
    built, made, lines = build(requirements, place=tmp_path / "env", wheels=wheels)
    assert made
    assert [(each["name"], each["version"]) for each in built.packages] == [("alpha", "1.0"), ("beta", "1.0")]
    assert all(str(each["hash"]).startswith("sha256:") for each in built.packages)
    assert any(line.startswith("Processing ") and "alpha-1.0" in line for line in lines)
    assert built.digest == runtime_digest(tmp_path / "env")
    tool = (tmp_path / "env" / "bin" / "alpha-tool").read_text()
    assert tool.startswith("#!/opt/runtime/bin/python3\n")
    require_program(tmp_path / "env", "alpha-tool", root=Path("/"))
    done = subprocess.run(
        [tmp_path / "env" / "bin" / "python3", "-c", "import alpha, beta; print(alpha.VALUE, alpha.__cached__)"],
        capture_output=True, text=True, check=True, timeout=60,
    )  # fmt: skip
    value, cached = done.stdout.split()
    assert (value, Path(cached).exists()) == ("7", True)
    assert str(tmp_path).encode() not in Path(cached).read_bytes()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["env", "requirements.txt", "wheels"]


def test_the_same_wheels_give_the_same_digest_and_a_second_build_does_nothing(tmp_path, wheels, requirements):
    first, _, _ = build(requirements, place=tmp_path / "one", wheels=wheels)
    other, _, _ = build(requirements, place=tmp_path / "two", wheels=wheels)
    assert first.digest == other.digest
    inode = (tmp_path / "one").stat().st_ino
    again, made, lines = build(requirements, place=tmp_path / "one", wheels=wheels)
    assert (again, made, lines) == (first, False, [])
    assert (tmp_path / "one").stat().st_ino == inode


@pytest.mark.slow
def test_included_files_constraints_hashes_and_folders_of_wheels_count(tmp_path, wheels, requirements):
    digest = hashlib.sha256((wheels / "beta-1.0-py3-none-any.whl").read_bytes()).hexdigest()
    (tmp_path / "in").mkdir()
    requirements.write_text("-f my\\\n-wheels\n--no-index\n-r in/more.txt  # all\n-c in/limits.txt\n")
    (tmp_path / "in" / "more.txt").write_text(
        f"beta==1.0 ; python_version > '3' \\\n  --hash=sha256:{digest}\n"
    )
    (tmp_path / "in" / "limits.txt").write_text("beta < 1\n")
    wheels.rename(tmp_path / "my-wheels")
    with raises_code("runtime.package", "runtime.failed"):
        build(requirements, place=tmp_path / "env", wheels=tmp_path, PIP_FIND_LINKS="")
    (tmp_path / "in" / "limits.txt").write_text("beta <= 1\nalpha == 7\n")
    built, _, _ = build(requirements, place=tmp_path / "env", wheels=tmp_path, PIP_FIND_LINKS="")
    assert [(each["name"], each["hash"]) for each in built.packages] == [("beta", f"sha256:{digest}")]


@pytest.mark.slow
def test_the_agents_user_may_read_it_whatever_the_umask(tmp_path, wheels, requirements):
    first, _, _ = build(requirements, place=tmp_path / "usual", wheels=wheels)
    before = os.umask(0o077)
    try:
        built, _, _ = build(requirements, place=tmp_path / "env", wheels=wheels)
    finally:
        os.umask(before)
    assert built.digest == first.digest
    for folder, _, names in os.walk(tmp_path / "env"):
        assert os.stat(folder).st_mode & 0o777 == 0o755
        assert all(os.stat(Path(folder, name)).st_mode & 0o044 == 0o044 for name in names)


@pytest.mark.slow
def test_other_requirements_replace_an_earlier_build(tmp_path, wheels, requirements):
    build(requirements, place=tmp_path / "env", wheels=wheels)
    requirements.write_text("beta\n")
    built, made, _ = build(requirements, place=tmp_path / "env", wheels=wheels)
    assert (made, [each["name"] for each in built.packages]) == (True, ["beta"])
    assert not (tmp_path / "env" / "bin" / "alpha-tool").exists()


@pytest.mark.slow
def test_a_changed_build_is_replaced_only_when_that_is_asked_for(tmp_path, wheels, requirements):
    first, _, _ = build(requirements, place=tmp_path / "env", wheels=wheels)
    (tmp_path / "env" / "mine.txt").touch()
    for text in ("alpha\n", "beta\n"):
        requirements.write_text(text)
        with raises_code("runtime.changed"):
            build(requirements, place=tmp_path / "env", wheels=wheels)
    assert (tmp_path / "env" / "mine.txt").exists()
    requirements.write_text("alpha\n")
    again, made, _ = build(requirements, place=tmp_path / "env", wheels=wheels, rebuild=True)
    assert (again.digest, made) == (first.digest, True)


def test_a_folder_that_no_build_made_is_left_alone_also_with_rebuild(tmp_path, wheels, requirements):
    place = tmp_path / "env"
    place.mkdir()
    for name, content in (
        ("file", "mine"),
        (NOTE, "{}"),
        (NOTE, '{"typ": "affiant-runtime/1"}'),
        (NOTE, "x"),
    ):
        (place / name).write_text(content)
        for rebuild in (False, True):
            with raises_code("runtime.output"):
                build(requirements, place=place, wheels=wheels, rebuild=rebuild)
        assert (place / name).read_text() == content
    (tmp_path / "link").symlink_to("nowhere")
    (tmp_path / "plain").write_text("mine")
    for name in ("link", "plain"):
        with raises_code("runtime.output"):
            build(requirements, place=tmp_path / name, wheels=wheels)
    (tmp_path / "empty").mkdir()
    assert build(requirements, place=tmp_path / "empty", wheels=wheels)[1]


def test_a_package_without_a_wheel_is_named_and_nothing_is_left(tmp_path, wheels, requirements):
    make_wheel(wheels, "gamma", tag="cp27-cp27m-win32")
    for text, name in (("alpha\ngamma\n", "gamma"), ("delta>=3\n", "delta>=3")):
        requirements.write_text(text)
        with raises_code("runtime.package", match=f"^{name}: no wheel"):
            build(requirements, place=tmp_path / "env", wheels=wheels)
    make_wheel(wheels, "alpha", requires=("epsilon==9",))
    requirements.write_text("alpha\n")
    with raises_code("runtime.package", match="^epsilon==9"):
        build(requirements, place=tmp_path / "env", wheels=wheels)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requirements.txt", "wheels"]


def test_no_source_is_built_when_a_users_configuration_asks_for_it(tmp_path, wheels, requirements):
    source = tmp_path / "omega-1.0"
    source.mkdir()
    (source / "setup.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n")
    subprocess.run(["tar", "-czf", wheels / "omega-1.0.tar.gz", "omega-1.0"], cwd=tmp_path, check=True)
    requirements.write_text("omega\n")
    with raises_code("runtime.package", match="^omega"):
        build(requirements, place=tmp_path / "env", wheels=wheels, PIP_NO_BINARY=":all:", PIP_USER="1")
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_no_module_of_the_folder_that_the_command_runs_in_is_run(tmp_path, monkeypatch, wheels, requirements):
    folder = tmp_path / "checkout"
    folder.mkdir()
    for name in ("pip", "json", "sitecustomize"):
        (folder / f"{name}.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\nraise SystemExit(1)\n")
    monkeypatch.chdir(folder)
    for path in ("", ".", str(folder)):
        build(requirements, place=tmp_path / "env", wheels=wheels, rebuild=True, PYTHONPATH=path)
    assert not (tmp_path / "ran").exists()


@pytest.mark.slow
def test_a_pinned_hash_that_does_not_hold_is_an_error_of_its_own(tmp_path, wheels, requirements):
    requirements.write_text(f"beta==1.0 --hash=sha256:{'0' * 64}\n")
    with raises_code("runtime.hash"):
        build(requirements, place=tmp_path / "env", wheels=wheels)


def test_an_index_that_does_not_answer_is_told_apart_from_a_missing_wheel(tmp_path, wheels, requirements):
    requirements.write_text("zeta\n")
    options = {
        "PIP_NO_INDEX": "0",
        "PIP_INDEX_URL": "http://me:hunter2hunter2@127.0.0.1:9/simple",
        "PIP_RETRIES": "1",
    }
    with raises_code("runtime.index") as caught:
        build(requirements, place=tmp_path / "env", wheels=wheels, **options)
    assert "hunter2" not in str(caught.value)


@pytest.mark.slow
def test_two_packages_with_one_program_are_an_error_and_not_a_draw(tmp_path, wheels, requirements):
    make_wheel(wheels, "python", files={"python-1.0.data/scripts/python3": "#!python\n"})
    requirements.write_text("python\n")
    with raises_code("runtime.package", match="^python3: two packages"):
        build(requirements, place=tmp_path / "env", wheels=wheels)


@pytest.mark.slow
def test_two_builds_of_one_folder_do_not_meet(tmp_path, wheels, requirements):
    with drafted(tmp_path / "env"):
        with raises_code("runtime.busy"):
            build(requirements, place=tmp_path / "env", wheels=wheels)
        assert build(requirements, place=tmp_path / "other", wheels=wheels)[1]
    assert build(requirements, place=tmp_path / "env", wheels=wheels)[1]


@pytest.mark.slow
def test_what_a_killed_build_left_is_removed_by_the_next(tmp_path, wheels, requirements):
    left = tmp_path / ".env.affiant-build" / "root" / "lib"
    left.mkdir(parents=True)
    (left / "half").touch()
    build(requirements, place=tmp_path / "env", wheels=wheels)
    assert not (tmp_path / "env" / "lib" / "half").exists()
    assert not (tmp_path / ".env.affiant-build").exists()


@pytest.mark.slow
def test_an_earlier_build_comes_back_if_the_next_was_killed_between_its_two_renames(
    tmp_path, wheels, requirements
):
    first, _, _ = build(requirements, place=tmp_path / "env", wheels=wheels)
    (tmp_path / ".env.affiant-build" / "work").mkdir(parents=True)
    (tmp_path / "env").rename(tmp_path / ".env.affiant-build" / "work" / "earlier")
    requirements.write_text("absent\n")
    with raises_code("runtime.package"):
        build(requirements, place=tmp_path / "env", wheels=wheels)
    assert runtime_digest(tmp_path / "env") == first.digest
    assert not (tmp_path / ".env.affiant-build").exists()


def test_an_earlier_build_comes_back_if_a_build_is_interrupted_between_its_two_renames(tmp_path):
    place = tmp_path / "env"
    place.mkdir()
    (place / "kept").touch()
    with pytest.raises(KeyboardInterrupt), drafted(place) as draft:
        place.rename(draft.work / "earlier")
        raise KeyboardInterrupt
    assert (place / "kept").exists()


@pytest.mark.parametrize("rebuild", [False, True])
def test_what_was_put_at_the_place_while_a_build_ran_is_left_alone(tmp_path, wheels, requirements, rebuild):
    place = tmp_path / "env"

    def meanwhile(line: str) -> None:
        if line == "computing the digest":
            place.mkdir()
            (place / "mine.txt").touch()

    with raises_code("runtime.output"):
        build_runtime(
            [requirements], place, python=PYTHON, extras=(), rebuild=rebuild,
            environment=environment(wheels), progress=meanwhile,
        )  # fmt: skip
    assert [path.name for path in place.iterdir()] == ["mine.txt"]


def test_a_link_where_the_build_would_work_is_not_followed(tmp_path, wheels, requirements):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "root").mkdir()
    (tmp_path / ".env.affiant-build").symlink_to("elsewhere")
    with raises_code("runtime.output"):
        build(requirements, place=tmp_path / "env", wheels=wheels)
    assert (tmp_path / "elsewhere" / "root").is_dir()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_pip_and_leaves_nothing(tmp_path, wheels, number):
    """pip waits for an index that never answers, so the signal meets it at work."""
    import socket

    (tmp_path / "requirements.txt").write_text("alpha\n")
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}/simple"
        process = subprocess.Popen(
            [sys.executable, "-m", "affiant", "runtime", "build", "-r", "requirements.txt", "-o", "env"],
            cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env=environment(wheels, PIP_NO_INDEX="0", PIP_INDEX_URL=address, PIP_FIND_LINKS=""),
        )  # fmt: skip
        silent.settimeout(60)
        connection, _ = silent.accept()  # pip asks
        process.send_signal(number)
        _, errors = process.communicate(timeout=60)
        connection.settimeout(30)
        while connection.recv(4096):  # until pip, which held the other end, is gone
            pass
        connection.close()
    assert process.returncode == 128 + number, errors
    assert b"Traceback" not in errors
    assert sorted(path.name for path in tmp_path.iterdir()) == ["requirements.txt", "wheels"]


@pytest.mark.slow
def test_a_folder_is_locked_as_long_as_the_tool_of_a_killed_build_runs(tmp_path, wheels, requirements):
    folder = tmp_path / ".env.affiant-build"
    folder.mkdir()
    held = os.open(folder, os.O_RDONLY)
    fcntl.flock(held, fcntl.LOCK_EX)
    tool = subprocess.Popen(["cat"], stdin=subprocess.PIPE, pass_fds=(held,))
    os.close(held)  # the build that started the tool is gone
    with raises_code("runtime.busy"):
        build(requirements, place=tmp_path / "env", wheels=wheels)
    tool.communicate()
    assert build(requirements, place=tmp_path / "env", wheels=wheels)[1]


@pytest.mark.parametrize("path", [sys.executable, "/usr/bin/true", "/usr/bin/absent", "python3"])
def test_a_python_that_the_sandbox_does_not_show_or_that_is_none_is_named(path):
    if path == sys.executable and Path(path).resolve().is_relative_to("/usr"):
        pytest.skip("this interpreter lies below /usr")
    with raises_code("runtime.interpreter"):
        find_interpreter(Path(path))


NPM = """#!/usr/bin/python3
import json, os, sys
open(os.environ["SEEN"], "w").write(json.dumps([sys.argv[1:], sorted(os.listdir("."))]))
if "NPMRC" in os.environ:
    open(os.environ["NPMRC"], "w").write(open(".npmrc").read())
if "FAIL" in os.environ:
    sys.exit(print("npm error code " + os.environ["FAIL"] + "\\nnpm error why") or 1)
os.makedirs("node_modules/.bin"); os.makedirs("node_modules/x")
open("node_modules/x/cli.js", "w").write("x")
os.symlink("../x/cli.js", "node_modules/.bin/x")
json.dump({"packages": {"": {}, "node_modules/x": json.loads(os.environ["FACTS"])}}, open("package-lock.json", "w"))
"""


@pytest.fixture
def npm(tmp_path, monkeypatch):
    """An npm whose answers the test chooses; the real one is tried where the network is."""
    (tmp_path / "tools").mkdir()
    (tmp_path / "tools" / "npm").write_text(NPM)
    (tmp_path / "tools" / "npm").chmod(0o755)
    project = tmp_path / "project"
    project.mkdir()
    (project / "package.json").write_text('{"dependencies": {"x": "1"}}')
    (project / ".npmrc").write_text("//example.com/:_authToken=hunter2hunter2")

    def run(**more):
        path = f"{tmp_path / 'tools'}:{os.environ['PATH']}"
        monkeypatch.setenv("PATH", path)
        facts = json.dumps(more.pop("facts", {"version": "1.0.0", "integrity": "sha512-x"}))
        given = {"PATH": path, "SEEN": str(tmp_path / "seen"), "FACTS": facts, **more}
        built, made, _ = build(
            project / "package.json", place=tmp_path / "env", wheels=tmp_path, rebuild=True, **given
        )
        return built, json.loads((tmp_path / "seen").read_text())

    if not Path("/usr/bin/node").exists():
        pytest.skip("the sandbox's /usr has no node")
    return run


def test_npm_runs_no_scripts_and_its_configuration_stays_outside(tmp_path, npm):
    built, (arguments, _) = npm(facts={"version": "1.0.0", "hasInstallScript": True})
    assert (arguments[0], "--ignore-scripts" in arguments) == ("install", True)
    assert built.packages[0]["install_script"] is True
    assert (tmp_path / "env" / "bin" / "x").resolve().read_text() == "x"
    for folder, _, names in os.walk(tmp_path / "env"):
        assert all(b"hunter2" not in Path(folder, name).read_bytes() for name in names)


def test_a_lock_file_is_what_npm_installs(tmp_path, npm):
    (tmp_path / "project" / "package-lock.json").write_text("{}")
    assert npm()[1][0][0] == "ci"
    assert npm()[1][1] == [".npmrc", "package-lock.json", "package.json"]


@pytest.mark.parametrize(
    "facts",
    [
        {"link": True},
        {"resolved": "git+ssh://git@example.com/x.git"},
        {"resolved": "../x"},
        {"resolved": "https://github.com/a/b.tgz"},
        {"version": "git+ssh://git@example.com/x.git"},
        {"resolved": "../x", "dev": True},
    ],
)
def test_a_package_that_npm_took_or_would_take_from_elsewhere_is_rejected(tmp_path, npm, facts):
    facts = {"version": "1.0.0", **facts}
    with raises_code("runtime.requirements", match="^x: "):
        npm(facts=facts)
    (tmp_path / "seen").unlink()
    for locked in (
        {"packages": {"": {}, "node_modules/x": facts}},
        {"lockfileVersion": 1, "dependencies": {"y": {"version": "1.0.0", "dependencies": {"x": facts}}}},
    ):
        (tmp_path / "project" / "package-lock.json").write_text(json.dumps(locked))
        with raises_code("runtime.requirements", match="^x: "):
            npm()
    assert not (tmp_path / "seen").exists()


def test_a_folders_npmrc_says_where_packages_are_and_names_no_program(tmp_path, npm):
    kept = (
        "registry=https://npm.example/\n@mine:registry = https://mine.example/\nlegacy-peer-deps=true\n"
        "//mine.example/x/:_authToken=${TOKEN}\n//mine.example/:_password=hunter2hunter2\n"
    )
    (tmp_path / "project" / ".npmrc").write_text(
        f"git=./evil\n{kept}script-shell=./evil\n 'git'=./evil\ngit[]=./evil\n[git]\nignore-scripts=false\n"
        "registry\rgit=./evil\nnode-options=--require=./evil\n//x/:git=./evil\n${X}=y\nregistry=a\rgit=./evil\n"
    )
    npm(NPMRC=str(tmp_path / "npmrc"))
    assert (tmp_path / "npmrc").read_text() == f"{kept}registry=a\n"


@pytest.mark.parametrize(
    ("failure", "code"),
    [
        ("ENOTFOUND", "runtime.index"),
        ("E404", "runtime.package"),
        ("EINTEGRITY", "runtime.hash"),
        ("EUSAGE", "runtime.failed"),
    ],
)
def test_what_npm_says_becomes_a_code(tmp_path, npm, failure, code):
    with raises_code(code, match="why"):
        npm(FAIL=failure)
    assert not (tmp_path / "env").exists()
