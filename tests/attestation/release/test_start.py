"""The import guard, by trying: a measured program imports only what its image lists."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import py_compile
import subprocess
import sys
from collections.abc import Mapping
from importlib.util import cache_from_source
from pathlib import Path

import pytest

from affiant.attestation.release import running, start
from affiant.attestation.release.boot import Image
from affiant.attestation.release.manifest import build_release
from affiant.attestation.release.memory import launch_image
from affiant.attestation.release.start import MeasuredImage, NotMeasured, image_digest_of, read_memory

START = Path(start.__file__)
PROGRAM = b"""
import json, sys
import affiant.a.near
def attempt(name):
    try:
        __import__(name)
    except ImportError as error:
        return type(error).__name__ + ": " + str(error)
    return "imported"
print(json.dumps({name: attempt(name) for name in sys.argv[1:]} | {"near": affiant.a.near.SAYS, "name": __name__}))
"""
CONTENT = {
    "affiant/a/__init__.py": b"",
    "affiant/a/near.py": b"SAYS = 'the measured one'",
    "affiant/a/program.py": PROGRAM,
}


def memory_file(content: Mapping[str, bytes], *, sealed: bool = True, image: Image = Image.SESSION) -> int:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.write(descriptor, launch_image(image, content).memory)
    if sealed:
        fcntl.fcntl(
            descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK
        )
    return descriptor


def run(
    *arguments: str, fds: tuple[int, ...] = (), env: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(START), *arguments]
    return subprocess.run(
        command, capture_output=True, text=True, timeout=60, pass_fds=fds, env=env, cwd=cwd, check=False
    )


def run_memory(content: Mapping[str, bytes], *names: str, **how: object) -> subprocess.CompletedProcess[str]:
    descriptor = memory_file(content)
    try:
        return run("--memory-fd", str(descriptor), "affiant.a.program", *names, fds=(descriptor,), **how)  # type: ignore[arg-type]
    finally:
        os.close(descriptor)


def test_a_listed_module_is_imported_from_memory_and_an_unlisted_one_is_not() -> None:
    done = run_memory(CONTENT, "affiant.a.near", "affiant.errors", "affiant.attestation.release.boot", "json")
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["near"] == "the measured one"
    assert said["name"] == "__main__"
    assert said["affiant.a.near"] == said["json"] == "imported"
    for installed in ("affiant.errors", "affiant.attestation.release.boot"):
        assert "is not in the session image" in said[installed]


def test_a_file_slipped_in_beside_the_code_is_not_imported(tmp_path: Path) -> None:
    """Neither from the environment's path, nor from the folder that it is started in, nor from a site folder."""
    (tmp_path / "affiant" / "a").mkdir(parents=True)
    (tmp_path / "affiant" / "a" / "near.py").write_text("SAYS = 'the other one'")
    (tmp_path / "affiant" / "a" / "slipped_in.py").write_text("")
    environment = {"PYTHONPATH": str(tmp_path), "PYTHONUSERBASE": str(tmp_path), "PATH": os.defpath}
    done = run_memory(CONTENT, "affiant.a.slipped_in", env=environment, cwd=tmp_path)
    said = json.loads(done.stdout)
    assert said["near"] == "the measured one"
    assert said["affiant.a.slipped_in"].startswith("NotMeasured")


def test_a_program_outside_the_image_does_not_start() -> None:
    descriptor = memory_file(CONTENT)
    done = run("--memory-fd", str(descriptor), "affiant.attestation.release", "check", fds=(descriptor,))
    os.close(descriptor)
    assert done.returncode == 1
    assert "[release.not_measured]" in done.stderr


def test_memory_that_could_still_be_changed_is_an_error() -> None:
    descriptor = memory_file(CONTENT, sealed=False)
    done = run("--memory-fd", str(descriptor), "affiant.a.program", fds=(descriptor,))
    os.close(descriptor)
    assert done.returncode == 1
    assert "not sealed" in done.stderr
    assert "[release.image]" in done.stderr


@pytest.mark.parametrize("arguments", [(), ("--memory-fd", "0"), ("--other", "0", "affiant.a.program")])
def test_wrong_arguments_start_nothing(arguments: tuple[str, ...]) -> None:
    assert run(*arguments).returncode == 1


def test_a_program_of_the_same_image_starts_from_the_same_memory() -> None:
    """``program_command`` in a measured program names its memory, and what that starts is as bound."""
    here = Path(running.__file__).parent
    names = (
        "boot",
        "closure",
        "images",
        "manifest",
        "measured_files",
        "running",
        "running_image",
        "platform_identity",
    )
    content = {f"affiant/attestation/release/{name}.py": (here / f"{name}.py").read_bytes() for name in names}
    content |= {"affiant/attestation/__init__.py": b"", "affiant/attestation/release/__init__.py": b""}
    for name in ("errors.py", "line_excerpt.py", "attestation/encoding/__init__.py"):
        content[f"affiant/{name}"] = (here.parents[1] / name).read_bytes()
    for name in ("binary_text", "canonical"):
        content[f"affiant/attestation/encoding/{name}.py"] = (
            here.parent / "encoding" / f"{name}.py"
        ).read_bytes()
    content |= CONTENT
    content["affiant/a/program.py"] = PROGRAM
    content["affiant/a/parent.py"] = b"""
import subprocess
from affiant.attestation.release.boot import Image
from affiant.attestation.release.running import memory_descriptors, program_command
from affiant.attestation.release.running_image import image_digest
print(image_digest(Image.SESSION), flush=True)
subprocess.run([*program_command("affiant.a.program"), "affiant.files"], pass_fds=memory_descriptors(), check=True)
"""
    descriptor = memory_file(content)
    done = run("--memory-fd", str(descriptor), "affiant.a.parent", fds=(descriptor,))
    os.close(descriptor)
    assert done.returncode == 0, done.stderr
    digest, said = done.stdout.splitlines()
    assert digest == image_digest_of(
        [(path, hashlib.sha256(data).hexdigest()) for path, data in content.items()]
    )
    assert json.loads(said)["affiant.files"].startswith("NotMeasured")


# -- where the file system is what was measured ------------------------------------------------------------------------


def of_files(content: Mapping[str, bytes], now: Mapping[str, bytes]) -> MeasuredImage:
    listed = {path: hashlib.sha256(data).hexdigest() for path, data in content.items()}
    return MeasuredImage("session", listed, code=None, read=lambda path: now[path], descriptor=None)


def test_a_listed_file_is_compiled_from_the_bytes_that_were_compared() -> None:
    image = of_files(CONTENT, CONTENT)
    names: dict[str, object] = {}
    exec(image.get_code("affiant.a.near"), names)
    assert names["SAYS"] == "the measured one"


def test_a_changed_file_is_not_imported() -> None:
    image = of_files(CONTENT, {**CONTENT, "affiant/a/near.py": b"SAYS = 'another one'"})
    with pytest.raises(NotMeasured, match="differs from the file"):
        image.get_code("affiant.a.near")


def installed(folder: Path, content: Mapping[str, bytes]) -> Path:
    """An installation of ``content`` with its release manifest; the path of its loader."""
    loader = "affiant/attestation/release/start.py"
    content = {**content, loader: START.read_bytes()}
    for path, data in content.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(data)
    files = [(path, hashlib.sha256(data).hexdigest()) for path, data in content.items()]
    release = build_release(files, {image: list(content) for image in Image})
    (folder / "affiant" / "release.json").write_bytes(release.to_bytes())
    return folder / loader


def run_installed(loader: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-I", str(loader), "--files", "session", "affiant.a.program"]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def test_an_installation_runs_as_long_as_it_is_the_listed_one(tmp_path: Path) -> None:
    loader = installed(tmp_path, CONTENT)
    assert json.loads(run_installed(loader).stdout)["near"] == "the measured one"
    (tmp_path / "affiant/a/near.py").write_text("SAYS = 'another one'")
    done = run_installed(loader)
    assert done.returncode == 1
    assert "near.py differs from the file that the session image lists" in done.stderr


def test_a_compiled_file_beside_the_source_is_not_believed(tmp_path: Path) -> None:
    """A ``.pyc`` of other source that Python itself would run without a look at the source (PEP 552, unchecked)."""
    loader = installed(tmp_path, CONTENT)
    near, other = tmp_path / "affiant/a/near.py", tmp_path / "other.py"
    other.write_text("SAYS = 'the poisoned one'")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(other), cfile=cache_from_source(str(near)), invalidation_mode=unchecked)
    plain = f"import sys; sys.path.insert(0, {str(tmp_path)!r}); from affiant.a.near import SAYS; print(SAYS)"
    assert "poisoned" in subprocess.check_output([sys.executable, "-I", "-S", "-c", plain], text=True)
    assert json.loads(run_installed(loader).stdout)["near"] == "the measured one"


def test_other_names_are_left_to_others() -> None:
    image = of_files(CONTENT, CONTENT)
    assert image.find_spec("json") is None
    assert image.find_spec("affiantish") is None


def test_the_digest_is_that_of_the_release() -> None:
    files = [(path, hashlib.sha256(data).hexdigest()) for path, data in CONTENT.items()]
    release = build_release(files, {image: list(CONTENT) for image in Image})
    assert (
        of_files(CONTENT, CONTENT).image_digest
        == release.images[Image.SESSION].digest
        == image_digest_of(files)
    )


def test_what_is_no_image_is_no_memory() -> None:
    descriptor = os.memfd_create("test", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_WRITE | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SHRINK)
    with pytest.raises(ValueError, match="0 bytes"):
        read_memory(descriptor)
    os.close(descriptor)
