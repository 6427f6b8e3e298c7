"""``affiant quote verify`` as a user runs it: verification and appraisal told apart, and every exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from tests.attestation.tdx.conftest import (
    BOOT_EVENTS,
    MRCONFIGID,
    NOW,
    RELEASE,
    REPORT_DATA,
    Genuine,
    quote_of,
)
from tests.attestation.tdx.policy.test_reference_policy import everything, hardware

from affiant.__main__ import cli
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.event_log.eventlog import replay
from affiant.attestation.verdict.trust_file import simulated_trust_file

AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
RTMR3 = replay(BOOT_EVENTS).hex()


@pytest.fixture
def files(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    reference = reference_values(RELEASE, platform.root_spki())
    root = platform.certificates.of(CertificateRole.ROOT)
    (tmp_path / "quote.bin").write_bytes(quote_of(platform))
    (tmp_path / "collateral.json").write_bytes(platform.collateral(NOW).to_bytes())
    (tmp_path / "reference.json").write_bytes(reference)
    (tmp_path / "trust.json").write_bytes(simulated_trust_file(reference, NOW))
    (tmp_path / "root.der").write_bytes(root.public_bytes(Encoding.DER))
    (tmp_path / "root.pem").write_bytes(root.public_bytes(Encoding.PEM))
    (tmp_path / "key.der").write_bytes(platform.root_spki())
    key = root.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    (tmp_path / "key.pem").write_bytes(key)
    return tmp_path


def run(files: Path, *more: str, quote: str = "quote.bin", collateral: str = "collateral.json") -> Result:
    arguments = [str(files / quote), "--collateral", str(files / collateral), "--at", AT, *more]
    return CliRunner().invoke(cli, ["quote", "verify", *arguments])


def everything_asked(files: Path) -> tuple[str, ...]:
    return (
        *("--reference", str(files / "trust.json"), "--image", "session", "--mrconfigid", MRCONFIGID.hex()),
        *("--report-data", REPORT_DATA.hex(), "--rtmr3", RTMR3),
    )


def test_a_simulated_platform_exits_with_40_and_says_so_whatever_is_asked(files: Path) -> None:
    for more in ((), everything_asked(files)):
        result = run(files, *("--root", str(files / "root.der")), *more)
        assert result.exit_code == 40, result.output
        assert result.output.splitlines()[-1].startswith("SIMULATED")
        assert "verified" not in result.output.lower()
        document = json.loads(run(files, "--root", str(files / "root.der"), *more, "--json").output)
        assert (document["exit_code"], document["simulated"], document["tier"]) == (40, True, "none")


@pytest.mark.parametrize("name", ["root.der", "root.pem", "key.der", "key.pem"])
def test_a_root_is_a_certificate_or_a_key(files: Path, name: str) -> None:
    assert run(files, "--root", str(files / name)).exit_code == 40


@pytest.mark.parametrize("name", ["trust.json", "reference.json"])
def test_the_reference_file_names_its_roots(files: Path, name: str) -> None:
    result = run(files, "--reference", str(files / name))
    assert result.exit_code == 40, result.output
    assert "image               session" in result.output


def test_a_simulated_platform_is_refused_where_only_intel_is_accepted(files: Path) -> None:
    for more in ((), ("--root", "intel"), ("--root", "intel", "--reference", str(files / "trust.json"))):
        result = run(files, *more)
        assert result.exit_code == 20
        assert "[root.untrusted]" in result.output
        assert "APPRAISAL  not made" in result.output
        assert result.output.splitlines()[-1].startswith("REFUSED  tier contraindicated")


def test_what_was_not_asked_is_listed_as_not_made(files: Path) -> None:
    bare = json.loads(run(files, "--root", str(files / "root.der"), "--json").output)
    assert bare["appraisal"]["asked"] is False
    assert {37, 38, 39, 40, 41, 43, 44} <= {row["point"] for row in bare["checks_not_made"]}
    asked = json.loads(run(files, *everything_asked(files), "--json").output)
    assert {row["point"] for row in asked["checks_not_made"]} == {22, 33, 37, 40, 42, 43, 44}
    points = {row["point"] for row in (*asked["checks_made"], *asked["checks_not_made"])}
    assert points == set(range(1, 46))


def test_every_input_has_its_digest(files: Path) -> None:
    document = json.loads(run(files, *everything_asked(files), "--json").output)
    assert set(document["inputs"]) == {
        "quote",
        "collateral",
        "tcb_info",
        "tcb_info_issuer_chain",
        "qe_identity",
        "qe_identity_issuer_chain",
        "root_ca_crl",
        "pck_crl",
        "pck_crl_issuer_chain",
        "pck_chain",
        "root_key",
        "reference_file",
        "reference_values",
    }
    assert all(name.startswith("sha256:") for name in document["inputs"].values())


@pytest.mark.parametrize(
    ("option", "value", "code"),
    [
        ("--mrconfigid", "11" * 48, "appraisal.mrconfigid"),
        ("--report-data", "11" * 64, "appraisal.report_data"),
        ("--rtmr3", "11" * 48, "appraisal.rtmr3"),
        ("--image", "gateway", "appraisal.image"),
    ],
)
def test_an_expectation_that_is_not_met_exits_with_20(
    files: Path, option: str, value: str, code: str
) -> None:
    result = run(files, "--reference", str(files / "trust.json"), option, value)
    assert result.exit_code == 20
    assert f"[{code}]" in result.output
    assert "VERIFICATION  held" in result.output
    assert "APPRAISAL  refused" in result.output
    document = json.loads(
        run(files, "--reference", str(files / "trust.json"), option, value, "--json").output
    )
    assert (document["refused"]["code"], document["refused"]["stage"]) == (code, "appraisal")
    assert document["appraisal"] is None


def test_a_file_that_is_no_quote_exits_with_20_and_is_named(files: Path) -> None:
    result = run(files, quote="collateral.json")
    assert result.exit_code == 20
    assert "[quote.not_a_quote]" in result.output
    assert "45 of 45 points" in result.output


def test_expired_collateral_exits_with_20(files: Path) -> None:
    result = run(files, "--root", str(files / "root.der"), "--at", "2027-01-01T00:00:00Z")
    assert result.exit_code == 20
    assert "expired" in result.output


@pytest.mark.parametrize(
    "more",
    [
        ("--at", "yesterday"),
        ("--at", "2026-05-04T12:00:00"),
        ("--mrconfigid", "xyz"),
        ("--mrconfigid", "00" * 48),
        ("--report-data", "00" * 32),
        ("--root", "/nonexistent"),
        ("--reference", "collateral.json"),
        ("--image", "other"),
        ("--image", "session"),
        ("--nonsense",),
    ],
    ids=" ".join,
)
def test_wrong_usage_exits_with_2(files: Path, more: tuple[str, ...]) -> None:
    fixed = tuple(str(files / item) if item.endswith(".json") else item for item in more)
    assert run(files, *fixed).exit_code == 2


def test_collateral_is_never_optional(files: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AFFIANT_HOME", str(files / "home"))
    result = CliRunner().invoke(cli, ["quote", "verify", str(files / "quote.bin")])
    assert result.exit_code == 2
    assert "collateral.absent" in result.output
    assert not (files / "home").exists()
    empty = files / "empty"
    empty.mkdir()
    result = run(files, "--root", str(files / "root.der"), collateral="empty")
    assert result.exit_code == 2
    assert "collateral.absent" in result.output


# -- hardware ----------------------------------------------------------------------------------------------------


def genuine_files(vectors: Any, genuine: Genuine, folder: Path, reference: bytes | None) -> list[str]:
    (folder / "quote.bin").write_bytes(genuine.raw)
    (folder / "c.json").write_bytes(genuine.collateral.to_bytes())
    arguments = [str(folder / "quote.bin"), "--collateral", str(folder / "c.json")]
    if reference is not None:
        (folder / "r.json").write_bytes(reference)
        arguments += ["--reference", str(folder / "r.json")]
    return [*arguments, "--at", str(int(genuine.now.timestamp()))]


@pytest.fixture(scope="module")
def bound(vectors: Any) -> Genuine:
    from tests.attestation.tdx.conftest import _genuine

    return _genuine(vectors, "phala_v5_td15ex", "collateral/b0c06f_2026-10.json", 1792714008)


def verify(arguments: list[str]) -> Result:
    return CliRunner().invoke(cli, ["quote", "verify", *arguments])


def test_genuine_and_up_to_date_but_not_appraised_is_none(
    vectors: Any, bound: Genuine, tmp_path: Path
) -> None:
    result = verify(genuine_files(vectors, bound, tmp_path, None))
    assert result.exit_code == 30
    assert "UpToDate" in result.output
    assert "affirming" not in result.output
    assert "verified" not in result.output.lower()


def test_genuine_appraised_and_everything_asked_is_affirming(
    vectors: Any, bound: Genuine, tmp_path: Path
) -> None:
    asked = everything(bound)
    assert asked.mrconfigid is not None
    assert asked.report_data is not None
    assert asked.rtmr3 is not None
    arguments = genuine_files(vectors, bound, tmp_path, hardware(bound).raw)
    bare = verify(arguments)
    assert bare.exit_code == 10
    options = (
        *("--mrconfigid", asked.mrconfigid.hex(), "--report-data", asked.report_data.hex()),
        *("--rtmr3", asked.rtmr3.hex()),
    )
    result = verify([*arguments, *options])
    assert result.exit_code == 0, result.output
    assert result.output.splitlines()[-1].startswith("VERIFIED  tier affirming")


def test_out_of_date_is_refused_or_a_warning_as_the_reference_says(vectors: Any, tmp_path: Path) -> None:
    from tests.attestation.tdx.conftest import _genuine

    old = _genuine(vectors, "phala_emr_v4", "collateral/b0c06f_2026-10.json", 1792714008)
    result = verify(genuine_files(vectors, old, tmp_path, hardware(old).raw))
    assert result.exit_code == 20
    assert "[appraisal.tcb_status]" in result.output
    accepting = hardware(old, tcb={"statuses": ["OutOfDate", "UpToDate"], "min_evaluation": 1})
    result = verify(genuine_files(vectors, old, tmp_path, accepting.raw))
    assert result.exit_code == 10
    assert "INTEL-SA-01312" in result.output
