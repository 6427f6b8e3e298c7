from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.release_of_files import release_of
from tests.attestation.verifier_js.conftest import node
from tests.properties import thorough

from affiant.attestation.release import images
from affiant.attestation.release import manifest as release
from affiant.attestation.release import measured_files as installed_files
from affiant.attestation.release.__main__ import main
from affiant.attestation.release.boot import Image, boot_registers
from affiant.attestation.release.manifest import (
    Release,
    ReleaseDiffersError,
    ReleaseMalformedError,
    ReleaseMissingError,
    check_release,
    load_release,
    measure_files,
    mrtd_of,
    parse_release,
    reference_values,
    write_release,
)
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.pki.roots import EvidenceClass
from affiant.errors import MalformedError

ROOT = Path(__file__).resolve().parents[3]
digests = st.binary(min_size=32, max_size=32).map(bytes.hex)
paths = st.from_regex(r"affiant/[a-z]{1,6}(/[a-z_]{1,6}){0,2}\.py", fullmatch=True)
listings = st.dictionaries(paths, digests, min_size=1, max_size=6).map(lambda files: list(files.items()))


def test_the_mrtd_is_sha384_of_the_rfc_8785_array() -> None:
    files = [("affiant/b.py", "22" * 32), ("affiant/a.py", "11" * 32)]
    text = f'[["affiant/a.py","{"11" * 32}"],["affiant/b.py","{"22" * 32}"]]'
    assert mrtd_of(files) == hashlib.sha384(text.encode()).digest()


# -- the manifest -----------------------------------------------------------------------------------------------


@thorough(40)
@given(listings)
def test_a_manifest_reads_back_as_it_was(files: list[tuple[str, str]]) -> None:
    built = release_of(files)
    assert parse_release(built.to_bytes()) == built
    assert built == release_of(files[::-1])


def test_the_manifest_has_exactly_the_specified_members() -> None:
    document = json.loads(release_of([("affiant/a.py", "11" * 32)]).to_bytes())
    assert document.keys() == {"typ", "files", "images"}
    assert document["typ"] == "affiant-release/2"
    assert document["images"].keys() == {"gateway", "session"}
    assert document["images"]["gateway"].keys() == {"digest", "files", "mrtd", "rtmr0", "rtmr1", "rtmr2"}


def test_images_of_the_same_files_differ_in_rtmr2_alone() -> None:
    built = release_of([("affiant/a.py", "11" * 32)])
    gateway, session = built.images[Image.GATEWAY].to_json(), built.images[Image.SESSION].to_json()
    assert [name for name in gateway if gateway[name] != session[name]] == ["rtmr2"]
    assert built.images[Image.SESSION].rtmr2 == boot_registers(Image.SESSION)[2]


@thorough(60)
@given(st.data())
def test_any_flipped_byte_is_refused_or_is_another_release(data: st.DataObject) -> None:
    """Another file digest needs another MRTD, so a byte alone never makes a second valid manifest."""
    manifest = bytearray(release_of([("affiant/a.py", "11" * 32), ("affiant/b.py", "22" * 32)]).to_bytes())
    index = data.draw(st.integers(0, len(manifest) - 1))
    manifest[index] ^= data.draw(st.integers(1, 255))
    with pytest.raises(MalformedError):
        parse_release(bytes(manifest))


def test_a_manifest_whose_mrtd_does_not_follow_from_its_files_is_refused() -> None:
    document = json.loads(release_of([("affiant/a.py", "11" * 32)]).to_bytes())
    document["files"][0][1] = "22" * 32
    forged = json.dumps(document, separators=(",", ":"), sort_keys=True).encode()
    with pytest.raises(ReleaseMalformedError, match="do not follow"):
        parse_release(forged)


@pytest.mark.parametrize("files", [[], [("affiant/a.py", "11" * 32), ("affiant/a.py", "22" * 32)]])
def test_no_file_or_one_path_twice_is_refused(files: list[tuple[str, str]]) -> None:
    with pytest.raises(ReleaseMalformedError):
        release_of(files)


def test_the_build_digest_is_the_sha256_of_the_manifest() -> None:
    built = release_of([("affiant/a.py", "11" * 32)])
    assert built.build_digest == "sha256:" + hashlib.sha256(built.to_bytes()).hexdigest()


def test_reference_values_are_simulated_and_parse() -> None:
    built = release_of([("affiant/a.py", "11" * 32)])
    reference = parse_reference_values(reference_values(built, b"a root key"))
    assert reference.cls is EvidenceClass.SIMULATED
    assert reference.roots == {"sha256:" + hashlib.sha256(b"a root key").hexdigest()}
    assert {image.mrtd for image in reference.images["session"]} == {built.images[Image.SESSION].mrtd}


# -- the command ------------------------------------------------------------------------------------------------


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A package of two files takes the place of what this process imports."""
    portion = tmp_path / "affiant"
    for name in ("errors.py", "policy/__init__.py"):
        (portion / name).parent.mkdir(parents=True, exist_ok=True)
        (portion / name).write_bytes(name.encode())
    monkeypatch.setattr(installed_files, "installed_portions", lambda: (portion,))
    monkeypatch.setattr(images, "PROGRAMS", dict.fromkeys(Image, ("affiant.errors",)))
    monkeypatch.setattr(release, "_manifest_file", lambda: portion / "release.json")
    return portion


def test_what_was_written_checks(installed: Path) -> None:
    written = write_release()
    assert check_release() == load_release() == written
    assert [path.name for path in installed.glob("release*")] == ["release.json"]


def test_whoever_measures_meanwhile_never_meets_a_draft(
    installed: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, drafts = [], []
    real = os.replace

    def looked_at(source: str, target: Path) -> None:
        drafts.append(Path(source))
        measured.append(installed_files.measure_files())
        real(source, target)

    monkeypatch.setattr(os, "replace", looked_at)
    written = write_release()
    assert measured == [written.files] and not drafts[0].exists()
    assert write_release() == written and len(drafts) == 1, "what is right is not written again"


def test_a_changed_installation_is_refused_and_named(installed: Path) -> None:
    write_release()
    (installed / "errors.py").write_bytes(b"changed")
    with pytest.raises(ReleaseDiffersError, match=r"affiant/errors\.py"):
        check_release()


def test_a_missing_manifest_says_how_to_write_one(installed: Path) -> None:
    with pytest.raises(ReleaseMissingError, match="release write"):
        load_release()


def test_the_command_writes_checks_and_refuses(installed: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check"]) == 1
    assert "[release.missing]" in capsys.readouterr().err
    assert main(["write"]) == 0
    assert main(["check"]) == 0
    digest = load_release().build_digest
    assert capsys.readouterr().out.count(digest) == 2
    (installed / "policy" / "__init__.py").unlink()
    assert main(["check"]) == 1
    assert "[release.differs]" in capsys.readouterr().err


# -- the build --------------------------------------------------------------------------------------------------


PAGE = "attestation/verifier-js/page/affiant-verifier.html"


@pytest.fixture
def source(tmp_path: Path) -> Path:
    """What a build needs of the tree, without what was built in it."""
    pytest.importorskip("hatchling", reason="the build back end is not installed")
    source = tmp_path / "source"
    built = shutil.ignore_patterns("__pycache__", "release.json", Path(PAGE).name)
    for name in ("attestation", "policy", "secrets", "sandbox", "gateway"):
        shutil.copytree(ROOT / name, source / name, ignore=built)
    (source / "scripts").mkdir()
    files = ("pyproject.toml", "hatch_build.py", "requirements.lock", "README.md", "LICENSE", ".gitignore")
    for name in (*files, "scripts/sbom.py"):
        shutil.copy(ROOT / name, source / name)
    return source


def packed_from(source: Path, target: str, out: Path) -> tuple[Path, str]:
    """The wheel or sdist that the real back end builds from ``source`` without Node, and what it prints."""
    done = subprocess.run(
        [sys.executable, "-m", "hatchling", "build", "-t", target, "-d", out],
        cwd=source,
        env={},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    )
    (built,) = out.iterdir()
    return built, done.stderr


def unpacked(wheel: Path, place: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(place)
    return place


def checked(place: Path) -> str:
    """What the installation at ``place`` says of itself. Without site-packages: it needs the standard library alone."""
    return subprocess.run(
        [sys.executable, "-S", "-m", "affiant.attestation.release", "check"],
        cwd=place.parent,
        env={"PYTHONPATH": str(place)},
        check=True,
        capture_output=True,
        text=True,
        timeout=60,
    ).stdout


def test_a_wheel_carries_its_bill_of_materials_and_is_measured_without_it(
    source: Path, tmp_path: Path
) -> None:
    wheel, _ = packed_from(source, "wheel", tmp_path / "out")
    place = unpacked(wheel, tmp_path / "place")
    (bill,) = place.glob("affiant-*.dist-info/sboms/*")
    printed = subprocess.run(
        [sys.executable, "scripts/sbom.py"], cwd=ROOT, check=True, capture_output=True, timeout=60
    ).stdout
    assert (bill.name, bill.read_bytes()) == ("affiant.cdx.json", printed)
    assert "gateway sha256:" in checked(place)


def test_a_wheel_carries_the_manifest_of_its_own_files(source: Path, tmp_path: Path) -> None:
    """Built by the real back end from a copy of the tree, unpacked, and measured by its own code."""
    wheel, _ = packed_from(source, "wheel", tmp_path / "dist")
    place = unpacked(wheel, tmp_path / "unpacked")
    packed: Release = parse_release((place / "affiant" / "release.json").read_bytes())
    assert measure_files([place / "affiant"]) == packed.files
    assert packed.build_digest in checked(place)


@pytest.mark.slow
def test_the_verifier_page_goes_through_sdist_and_wheel_and_is_not_measured(
    source: Path, tmp_path: Path
) -> None:
    without, _ = packed_from(source, "wheel", tmp_path / "without")
    build_page(source)
    page = (source / PAGE).read_bytes()
    sdist, told = packed_from(source, "sdist", tmp_path / "sdist")
    assert "WARNING" not in told
    (tmp_path / "from-sdist").mkdir()
    subprocess.run(["tar", "-xzf", sdist, "-C", tmp_path / "from-sdist"], check=True)
    (again,) = (tmp_path / "from-sdist").iterdir()
    assert (again / PAGE).read_bytes() == page
    wheel, told = packed_from(again, "wheel", tmp_path / "wheel")
    assert "WARNING" not in told
    place = unpacked(wheel, tmp_path / "unpacked")
    assert (place / installed_files.VERIFIER_PAGE_PATH).read_bytes() == page
    with zipfile.ZipFile(without) as archive:
        manifest = archive.read(installed_files.MANIFEST_PATH)
        assert installed_files.VERIFIER_PAGE_PATH not in archive.namelist()
    assert (place / installed_files.MANIFEST_PATH).read_bytes() == manifest
    assert parse_release(manifest).build_digest in checked(place)


@pytest.mark.parametrize("target", [pytest.param("sdist", marks=pytest.mark.slow), "wheel"])
def test_a_build_without_the_verifier_page_warns(source: Path, tmp_path: Path, target: str) -> None:
    built, told = packed_from(source, target, tmp_path / "dist")
    assert f"WARNING: this {target} is without {PAGE}" in told
    assert "it was not built" in told and "make verifier-page" in told
    assert Path(PAGE).name not in names_in(built)


@pytest.mark.parametrize("target", [pytest.param("sdist", marks=pytest.mark.slow), "wheel"])
def test_a_page_of_other_modules_is_left_out_with_a_warning(
    source: Path, tmp_path: Path, target: str
) -> None:
    build_page(source)
    with open(source / "attestation/verifier-js/lib/inflate.mjs", "a") as module:
        module.write("// changed since\n")
    built, told = packed_from(source, target, tmp_path / "dist")
    assert "WARNING" in told and "built from other modules" in told
    assert Path(PAGE).name not in names_in(built)


def build_page(source: Path) -> None:
    subprocess.run([node(), source / "attestation/verifier-js/build_page.mjs"], check=True, timeout=30)


def names_in(built: Path) -> set[str]:
    """The file names in a wheel or an sdist, without their folders."""
    if built.suffix == ".whl":
        with zipfile.ZipFile(built) as archive:
            return {Path(name).name for name in archive.namelist()}
    with tarfile.open(built) as archive:
        return {Path(name).name for name in archive.getnames()}
