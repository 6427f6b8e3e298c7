"""The wall: what is in each measured image, what is in none, and what a change of either moves."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping
from functools import cache
from types import MappingProxyType

import pytest
from tests.attestation.tdx.conftest import BOOT_EVENTS, NOW, appraise_session, log_of, quote_of, random_bytes
from tests.raising import raises_code

from affiant.attestation.release.boot import Image
from affiant.attestation.release.images import PROGRAMS, files_of_images
from affiant.attestation.release.manifest import Release, build_release, reference_values
from affiant.attestation.release.measured_files import InstalledFileError, find_files, measure
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.manifest import GatewayIdentity, make_manifest, mrconfigid
from affiant.attestation.tdx.appraise.appraisal import Appraisal
from affiant.attestation.tdx.appraise.reference import parse_reference_values

OUTSIDE = re.compile(
    r"/(cli|audit|exports|review|review_page|report|verifier|testing|learn|lint|authority|editor|replay)/"
    r"|/quote/(providers/(clouds|tpm)|judge|show)/|_commands?\.py$|/commands\.py$|command_line|html|fault_scenarios"
)
"""Commands, reports, exports, audits, fault scenarios, Azure and the TPM."""


@cache
def sources() -> Mapping[str, bytes]:
    return {path: file.read_bytes() for path, file in find_files().items()}


def release_with(changed: Mapping[str, bytes] = MappingProxyType({})) -> Release:
    """The release of this tree, in which the file of each path has other bytes."""
    content = {**sources(), **changed}
    readers: dict[str, Callable[[], bytes]] = {
        path: (lambda data=data: data) for path, data in content.items()
    }
    digests = dict(measure(find_files()))
    digests |= {path: digest_of(data) for path, data in changed.items()}
    return build_release(list(digests.items()), files_of_images(readers))


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


@cache
def now() -> Release:
    return release_with()


def paths(image: Image) -> set[str]:
    return {path for path, _ in now().images[image].files}


@pytest.mark.parametrize("image", Image)
def test_commands_reports_exports_and_audits_are_in_no_image(image: Image) -> None:
    assert [path for path in sorted(paths(image)) if OUTSIDE.search(path)] == []


@pytest.mark.parametrize("image", Image)
def test_every_program_of_an_image_is_in_it(image: Image) -> None:
    for program in PROGRAMS[image]:
        assert program.replace(".", "/") + ".py" in paths(image)


def test_the_two_images_differ_in_every_name() -> None:
    gateway, session = now().images[Image.GATEWAY], now().images[Image.SESSION]
    assert gateway.mrtd != session.mrtd
    assert gateway.digest != session.digest
    assert gateway.rtmr2 != session.rtmr2


UNMEASURED = [
    "affiant/policy/review_page/style.py",
    "affiant/policy/exports/cedar.py",
    "affiant/attestation/audit/reconcile/matching.py",
    "affiant/attestation/cli/bundle/verify_command.py",
    "affiant/gateway/cli/commands.py",
    "affiant/command_line.py",
]


@pytest.mark.parametrize("path", UNMEASURED)
def test_a_change_outside_the_images_moves_no_measurement(path: str) -> None:
    """MRTD, `bld` and, through `manifest.supervisor`, MRCONFIGID stay."""
    if path not in sources():
        path = next(each for each in sorted(sources()) if each.startswith(path.rpartition("/")[0] + "/"))
    changed = release_with({path: sources()[path] + b"\n# another report\n"})
    for image in Image:
        assert changed.images[image] == now().images[image]
    assert changed.build_digest != now().build_digest
    assert mrconfigid_of(changed) == mrconfigid_of(now())


def mrconfigid_of(release: Release) -> bytes:
    """What a session's TD is launched for, where only the supervisor's image differs."""
    digest = "sha256:" + "00" * 32
    return mrconfigid(
        make_manifest(
            cls="simulated",
            profile_digest="sha384:" + "00" * 48,
            file_digest=digest,
            supervisor=release.images[Image.SESSION].digest,
            rootfs="host-usr",
            runtime=None,
            isolation_floor="userspace-kernel",
            gateway=GatewayIdentity("log.example", digest, digest, "simulated"),
            hosts={},
            upstream_roots=[],
        )
    )


@pytest.mark.parametrize(
    ("path", "moved"),
    [
        ("affiant/gateway/inference/inference.py", {Image.GATEWAY}),
        ("affiant/sandbox/supervisor/supervise.py", {Image.SESSION}),
        ("affiant/policy/decision/compiled.py", {Image.GATEWAY, Image.SESSION}),
    ],
)
def test_a_change_inside_moves_its_image_and_no_other(path: str, moved: set[Image]) -> None:
    changed = release_with({path: sources()[path] + b"\n# another rule\n"})
    assert {image for image in Image if changed.images[image].mrtd != now().images[image].mrtd} == moved
    assert {image for image in Image if changed.images[image].digest != now().images[image].digest} == moved
    assert (mrconfigid_of(changed) != mrconfigid_of(now())) == (Image.SESSION in moved)


def test_an_image_without_a_program_of_its_own_is_an_error() -> None:
    readers = {path: (lambda: b"") for path in sources() if "inference" not in path and "server" not in path}
    with pytest.raises(InstalledFileError, match="missing"):
        files_of_images(readers)


def test_a_file_that_is_not_python_is_an_error() -> None:
    readers = {path: (lambda: b"def") for path in sources()}
    with pytest.raises(InstalledFileError, match="not Python"):
        files_of_images(readers)


# -- one image in the place of the other -------------------------------------------------------------------------


def appraised(image: Image, *, launched_as: Image, mrtd_of: Image) -> Appraisal:
    """The appraisal as ``image`` of a TD that was launched as ``launched_as``, with ``mrtd_of``'s MRTD."""
    events = BOOT_EVENTS if image is Image.SESSION else ()
    quote = quote_of(PLATFORM, image=launched_as, mrtd=now().images[mrtd_of].mrtd, events=events)
    return appraise_session(
        PLATFORM,
        quote,
        image=image.value,
        reference=parse_reference_values(reference_values(now(), PLATFORM.root_spki())),
        log=log_of(events, launched_as),
        expected_rtmr3=events if image is Image.SESSION else None,
    )


PLATFORM = SimulatedPlatform.create(now=NOW, random_bytes=random_bytes("images"))


@pytest.mark.parametrize("image", Image)
def test_a_td_of_its_own_image_is_appraised(image: Image) -> None:
    assert appraised(image, launched_as=image, mrtd_of=image).image == image.value


@pytest.mark.parametrize("launched_as", Image)
def test_a_session_with_the_gateways_image_is_rejected(launched_as: Image) -> None:
    with raises_code("appraisal.image"):
        appraised(Image.SESSION, launched_as=launched_as, mrtd_of=Image.GATEWAY)


@pytest.mark.parametrize("launched_as", Image)
def test_a_gateway_with_the_sessions_image_is_rejected(launched_as: Image) -> None:
    with raises_code("appraisal.image"):
        appraised(Image.GATEWAY, launched_as=launched_as, mrtd_of=Image.SESSION)
