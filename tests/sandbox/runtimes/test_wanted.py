"""What would run a package's code on the machine that builds never reaches pip or npm."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest
from pip._internal.utils.filetypes import ARCHIVE_EXTENSIONS
from tests.raising import raises_code

from affiant.sandbox.runtimes.wanted import read_wanted


def written(tmp_path: Path, text: str, name: str = "requirements.txt") -> Path:
    (tmp_path / name).write_text(text)
    return tmp_path / name


WHEEL = "mine-1.0-py3-none-any.whl"
TAKEN = [
    ("openai>=2", "openai>=2"),
    ("openai[voice] ~= 2.1 ; python_version >= '3.9'", "openai[voice] ~= 2.1 ; python_version >= '3.9'"),
    ("  # a comment\n\nopenai  # why", "openai"),
    ("openai (>=2,<3)", "openai (>=2,<3)"),
    ("backports.tarfile\nzipp==3.*", "backports.tarfile|zipp==3.*"),
    (
        "openai==2.0 \\\n  --hash=sha256:aa \\\n  --hash=sha256:bb",
        "openai==2.0 --hash=sha256:aa --hash=sha256:bb",
    ),
    ("openai \\\n# why \\\nanyio", "openai|anyio"),
    (
        "--index-url https://user:pass@index.example/simple\n--extra-index-url=https://x.example\nopenai",
        "--index-url=https://user:pass@index.example/simple|--extra-index-url=https://x.example|openai",
    ),
    (
        "-i https://index.example\n-f wheels\n--find-links='my w'\n--no-index\n--pre\n--require-hashes\nopenai",
        "--index-url=https://index.example|--find-links=file://TMP/wheels|--find-links=file://TMP/my%20w|--no-index|--pre|--require-hashes|openai",
    ),
    ("-ffile:///srv/wheels\n--trusted-host x:1", "--find-links=file:///srv/wheels|--trusted-host=x:1"),
    (f"mine @ https://example.com/{WHEEL}#sha256=aa", f"mine @ https://example.com/{WHEEL}#sha256=aa"),
    (f"./wheels/{WHEEL}", f"file://TMP/wheels/{WHEEL}"),
    (
        f"mine[a]@file://TMP/%77heels/../wheels/{WHEEL};'a'=='b'",
        f"mine[a] @ file://TMP/wheels/{WHEEL} ; 'a'=='b'",
    ),
    (f"https://me:pass@example.com/{WHEEL}", f"https://me:pass@example.com/{WHEEL}"),
]


@pytest.mark.parametrize(("text", "lines"), TAKEN)
def test_packages_of_an_index_and_wheels_are_taken_and_pip_is_given_lines_of_our_own(
    tmp_path, monkeypatch, text, lines
):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "wheels").mkdir()
    (tmp_path / "wheels" / WHEEL).touch()
    wanted = read_wanted([written(tmp_path, text.replace("TMP", str(tmp_path)))])
    assert (wanted.python, wanted.constraints) == (True, ())
    assert wanted.requirements == tuple(lines.replace("TMP", str(tmp_path)).split("|"))


REJECTED = [
    "-e .",
    "-e.",
    "--editable=git+https://example.com/x",
    "--no-binary :all:",
    "--no-binary=:all:\nopenai",
    "--no-bi\\\nnary :all:",
    "--no-bin :all:",
    "--pre --no-binary :all:",
    "-i https://index.example --no-binary=:all:",
    "-i https://index.example '--no-binary' :all:",
    "--index-url=https://index.example -e .",
    "-rrequirements.txt -e .",
    "--only-binary :none:",
    "--only-binary=:none:",
    "--pre=x",
    "-i",
    "-i 'open",
    "./folder.whl",
    "mine @ file:///usr/../TMP/folder.whl",
    "--global-option=x",
    "--config-settings x=y",
    ".",
    "./folder",
    "/srv/folder",
    "folder/below",
    "../sibling; python_version > '3'",
    "mine-1.0.tar.gz",
    "mine-1.0.ZIP",
    "git+https://example.com/x.git",
    "git+ssh://git@example.com/x.git#egg=x",
    "https://example.com/x.tar.gz",
    "https://example.com/x.tar.gz#.whl",
    "https://example.com/x.tar.gz?x=.whl",
    "mine @ git+https://example.com/x.git",
    "mine@git+https://example.com/x.git",
    "mine[a] @ file:///srv/folder",
    "mine @ ${PLACE}",
    "${EVERYTHING}",
    "openai --config-settings=x=y",
    "openai --no-binary=openai",
    "-r https://example.com/requirements.txt",
    "-r ${PLACE}",
    "-r absent.txt",
    "=1.0",
    "mine @ git+https://example.com/x.whl",
    f"mine @ git+https://example.com/{WHEEL}",
    f"git+https://example.com/{WHEEL}",
    f"git+file:///srv/{WHEEL}",
    'mine -"-no-binary" :all:',
    "mine '-'-no-binary :all:",
    'mine --hash=sha256:00 "--no-binary" :all:',
    'mine --hash=sha256:00"--no-binary"',
    "mine; python_version > '3' and 'a -e b' > ''",
    "mine; python_version > '3' ; extra",
    "mine; python_version > '${HOME}'",
    "-r absent\\\n#b",
    "-r foo\\\\\nbar.txt",
    "-r 'foo\\bar.txt'",
    "-i https://example.com/${SECRET}",
    "-i https://example.com/'\u00a0--no-binary=:all:'",
    "--trusted-host 'x --no-binary=:all:'",
    "-f git+https://example.com/x",
    "mine @ file://TMP/%6dine-1.0-py3-none-any.whl",
    f"mine @ file://TMP/sub/../{WHEEL}",
    f"./{WHEEL}",
    f"./absent/{WHEEL}",
    "https://mine-1.0-py3-none-any.whl",
    f"https://example.com/{WHEEL}/",
    f"https://example.com/{WHEEL.upper()}",
    "https://example.com/.whl",
    f"https://example.com/{WHEEL}#egg=mine",
    f"https://example.com/{WHEEL}#sha256=aa&subdirectory=x",
    "mine-1.0.tbz[a]",
    "mine==1.0.zip; python_version > '3'",
    "\u0665mine",
]


@pytest.mark.parametrize("text", REJECTED)
def test_what_would_be_built_is_rejected_before_pip_starts(tmp_path, monkeypatch, text):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder.whl").mkdir()
    (tmp_path / WHEEL).mkdir()
    for name in ("absent#b", "foo\\bar.txt"):
        (tmp_path / name).write_text("anyio\n")
    with raises_code("runtime.requirements", match=r"requirements\.txt(:2)?: |absent"):
        read_wanted([written(tmp_path, f"anyio\n{text.replace('TMP', str(tmp_path))}\n")])


@pytest.mark.parametrize("ending", ARCHIVE_EXTENSIONS)
def test_what_pip_may_take_for_a_file_of_the_current_folder_is_rejected(tmp_path, ending):
    for text in (f"mine-1.0{ending}", f"mine-1.0{ending.upper()}[a]", f"mine==1.0{ending} ; 'a' == 'b'"):
        with raises_code("runtime.requirements", match=r"requirements\.txt:1"):
            read_wanted([written(tmp_path, text)])


@pytest.mark.parametrize(
    "text", ["-*- coding: utf-7 -*-\nnumpy+AAo--e +AC4ALw-pkg", "é\nanyio\0", "é\n+AC0-e ."]
)
def test_no_encoding_that_a_file_names_makes_it_mean_something_else(tmp_path, text):
    with raises_code("runtime.requirements"):
        read_wanted([written(tmp_path, f"# {text}\n")])


def test_what_comes_after_many_characters_is_judged_or_the_file_is_rejected(tmp_path):
    with raises_code("runtime.requirements", match="at most"):
        read_wanted([written(tmp_path, f"anyio\n#{'x' * (8 << 20)}\n-e .\n")])


def test_a_rejected_line_is_named_without_the_password_in_it(tmp_path):
    with raises_code("runtime.requirements", match=r"requirements\.txt:2") as caught:
        read_wanted([written(tmp_path, "anyio\ngit+https://me:hunter2hunter2@example.com/x\n")])
    assert "hunter2" not in str(caught.value)


def test_files_that_are_named_are_judged_too_and_once(tmp_path):
    written(tmp_path, "-r requirements.txt\n-c more.txt\nanyio\n", "other.txt")
    written(tmp_path, "anyio<9\n", "more.txt")
    path = written(tmp_path, "--requirement other.txt\n")
    assert sorted(read_wanted([path]).digests) == ["more.txt", "other.txt", "requirements.txt"]
    wanted = read_wanted([path])
    assert (wanted.requirements, wanted.constraints) == (("anyio",), ("anyio<9",))
    written(tmp_path, "-e .\n", "more.txt")
    with raises_code("runtime.requirements", match=r"more\.txt:1"):
        read_wanted([path])


def test_any_change_of_a_file_changes_what_is_wanted(tmp_path):
    path = written(tmp_path, "anyio\n")
    first = read_wanted([path]).digests
    path.write_text("anyio\n\n")
    assert read_wanted([path]).digests != first


PROJECT = """[project]
name = "My.Agent"
dependencies = ["openai>=2"]
[project.optional-dependencies]
web = ["httpx"]
all = ["my-agent[web]", "rich"]
"""


@pytest.mark.parametrize("line", ["{}", "mine @ file://{}", "{}#sha256=00", "{} ; python_version > '3'"])
@pytest.mark.parametrize("file", ["requirements.txt", "constraints"])
def test_another_wheel_at_the_same_path_changes_what_is_wanted(tmp_path, line, file):
    wheel = tmp_path / "with space" / WHEEL
    wheel.parent.mkdir()
    wheel.write_bytes(b"one")
    named = line.format(str(wheel).replace(" ", "%20") if "://" in line else wheel)
    (tmp_path / "requirements.txt").write_text(
        f"{named}\n" if file == "requirements.txt" else "-c constraints\nalpha\n"
    )
    (tmp_path / "constraints").write_text(f"{named}\n")
    first = read_wanted([tmp_path / "requirements.txt"]).digests
    assert first[WHEEL] == f"sha256:{hashlib.sha256(b'one').hexdigest()}"
    wheel.write_bytes(b"two")
    assert read_wanted([tmp_path / "requirements.txt"]).digests != first


def test_the_dependencies_of_a_project_and_its_extras_are_wanted_and_not_the_project(tmp_path):
    path = written(tmp_path, PROJECT, "pyproject.toml")
    assert read_wanted([path]).requirements == ("openai>=2",)
    assert sorted(read_wanted([path], extras=["all"]).requirements) == ["httpx", "openai>=2", "rich"]
    with raises_code("runtime.requirements", match="no such extra"):
        read_wanted([path], extras=["gui"])
    with raises_code("runtime.requirements", match="--extra"):
        read_wanted([written(tmp_path, "anyio")], extras=["all"])


@pytest.mark.parametrize(
    "text",
    [
        "[tool.poetry.dependencies]\nopenai = '2'\n",
        "[project]\nname = 'x'\ndynamic = ['dependencies']\n",
        "[project]\nname = 'x'\ndependencies = ['a @ git+https://example.com/x']\n",
        "[project]\nname = 'x'\ndependencies = ['--no-binary=:all:']\n",
        '[project]\nname = "x"\ndependencies = ["a\\n-e ."]\n',
        "[project]\nname = 'x'\ndependencies = ['a \\', '-e .']\n",
        "[project]\nname = 'x'\ndependencies = [7]\n",
        "not toml",
    ],
)
def test_a_project_whose_dependencies_are_not_listed_or_not_finished_is_rejected(tmp_path, text):
    with raises_code("runtime.requirements"):
        read_wanted([written(tmp_path, text, "pyproject.toml")])


@pytest.mark.parametrize(
    ("version", "taken"),
    [
        ("^2.1.3", True),
        (">=1 <2 || 3.x", True),
        ("latest", True),
        ("*", True),
        ("npm:@scope/other@^1.0.0", True),
        ("https://example.com/x-1.0.tgz", True),
        ("git+ssh://git@example.com/x.git", False),
        ("github:user/repo", False),
        ("user/repo", False),
        ("user/repo#semver:^1", False),
        ("file:../x", False),
        ("link:../x", False),
        ("workspace:*", False),
        ("../x", False),
        ("~/x", False),
        ("http://example.com/x.tgz", False),
        ("https://example.com/x.git", False),
        ("https://github.com/a/b/archive/v1.tar.gz", True),
        ("https://github.com/a/b.tgz", False),
        ("https://www.GitHub.com/a/b/tree/x.tgz", False),
        ("https://%67ithub.com/a/b.tgz", False),
        ("https:\\\\github.com/a/b.tgz", False),
        ("https://gitlab.com/a/b/c.tgz", False),
        ("..", False),
        ("$y", False),
        ({"y": "1"}, False),
        (".x", False),
        ("x.tgz", False),
        (7, False),
        (None, False),
    ],
)
def test_node_packages_come_from_a_registry(tmp_path, version, taken):
    path = written(tmp_path, json.dumps({"optionalDependencies": {"x": version}}), "package.json")
    if taken:
        assert read_wanted([path]).package_json == path
    else:
        with raises_code("runtime.requirements", match="optionalDependencies.x"):
            read_wanted([path])


@pytest.mark.parametrize("kind", ["dependencies", "devDependencies", "peerDependencies", "overrides"])
def test_no_kind_of_dependency_names_a_source(tmp_path, kind):
    with raises_code("runtime.requirements", match=rf"{kind}\.x\)"):
        read_wanted(
            [written(tmp_path, json.dumps({kind: {"x": "git+https://example.com/x"}}), "package.json")]
        )


def test_overrides_are_judged_at_every_depth(tmp_path):
    for version, taken in (
        ("$y", True),
        ("$@y/z", True),
        ("$/../x", False),
        ("^2", True),
        ("file:../x", False),
        (["1"], False),
    ):
        text = json.dumps(
            {"dependencies": {"y": "1"}, "overrides": {"a": {".": "1", "b@^2": {"c": version}}}}
        )
        path = written(tmp_path, text, "package.json")
        if taken:
            assert read_wanted([path]).package_json == path
        else:
            with raises_code("runtime.requirements", match=r"overrides\.a\.b@\^2\.c"):
                read_wanted([path])


@pytest.mark.parametrize(
    "text",
    [
        "[]",
        "{",
        "[" * 100_000,
        '{"packages": []}',
        '{"packages": {"node_modules/x": 1}}',
        '{"packages": {"node_modules/../../x": {}}}',
        '{"packages": {"../x": {}}}',
        '{"packages": {"node_modules/x": {"version": "../x"}}}',
        '{"dependencies": {"x": {"version": "file:../x"}}}',
        '{"dependencies": {"../x": {}}}',
    ],
)
def test_a_lock_file_that_leads_elsewhere_is_rejected(tmp_path, text):
    written(tmp_path, text, "package-lock.json")
    with raises_code("runtime.requirements"):
        read_wanted([written(tmp_path, "{}", "package.json")])


@pytest.mark.parametrize(
    "text", ['{"workspaces": ["a"]}', "[]", "{", "null", '{"dependencies": ["x"]}', '{"overrides": "x"}']
)
def test_what_is_no_package_of_its_own_is_rejected(tmp_path, text):
    with raises_code("runtime.requirements"):
        read_wanted([written(tmp_path, text, "package.json")])
