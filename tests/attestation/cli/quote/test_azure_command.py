"""``affiant quote verify-azure``: the platform and the guest, each judged; a warning is the best there is."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.quote.providers.azure import hcl_report, runtime_data
from tests.attestation.quote.providers.clouds.test_azure_vtpm import NONCE, PCRS, attest, signature
from tests.attestation.tdx.conftest import NOW, trust_of

from affiant.__main__ import cli
from affiant.attestation.quote.judge.azure_verdict import AzureQuestion, AzureVerdict, judge_azure
from affiant.attestation.quote.judge.verdict import Question
from affiant.attestation.quote.providers.clouds.azure_document import encode_azure_evidence
from affiant.attestation.quote.providers.clouds.azure_vtpm import AzureVTPMEvidence, CollectedAzureEvidence
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.verdict.verdict import Tier

KEY = rsa.generate_private_key(65537, 2048)
AT = f"{NOW:%Y-%m-%dT%H:%M:%SZ}"
SIMULATED_POLICY = Path(__file__).resolve().parents[4] / "docs" / "formats" / "appraisal" / "simulated.yaml"


def document(platform: SimulatedPlatform, *, nonce: bytes = NONCE, report_data: bytes | None = None) -> bytes:
    registers = platform.launch(Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32))
    data = runtime_data(KEY)
    bound = hashlib.sha256(data).digest() + bytes(32) if report_data is None else report_data
    message = attest(nonce)
    evidence = AzureVTPMEvidence(hcl_report(data), message, signature(KEY, message), PCRS)
    return encode_azure_evidence(CollectedAzureEvidence(platform.quote(registers, bound), evidence))


@pytest.fixture
def folder(platform: SimulatedPlatform, tmp_path: Path) -> Path:
    (tmp_path / "e.json").write_bytes(document(platform))
    (tmp_path / "c.json").write_bytes(platform.collateral(NOW).to_bytes())
    root = platform.certificates.of(CertificateRole.ROOT).public_bytes(Encoding.DER)
    (tmp_path / "root.der").write_bytes(root)
    return tmp_path


def run(folder: Path, *more: str, nonce: bytes = NONCE) -> Result:
    arguments = [str(folder / "e.json"), "--nonce", nonce.hex(), "--collateral", str(folder / "c.json")]
    arguments += ["--root", str(folder / "root.der"), "--at", AT]
    return CliRunner().invoke(cli, ["quote", "verify-azure", *arguments, *more])


def shown(folder: Path, *more: str, **how: Any) -> dict[str, Any]:
    result = run(folder, *more, "--json", **how)
    found: dict[str, Any] = json.loads(result.output)
    assert found["exit_code"] == result.exit_code
    return found


def pins(*numbers: int, **wrong: bytes) -> list[str]:
    return [part for n in numbers for part in ("--pcr", f"{n}={wrong.get(f'pcr{n}', PCRS[n]).hex()}")]


def test_what_holds_on_a_simulated_platform_is_simulated_and_named_what_it_is(folder: Path) -> None:
    result = run(folder, *pins(4, 11))
    assert result.exit_code == 40, result.output
    assert result.output.startswith("profile azure-vtpm (SIMULATED)")
    assert "Microsoft's paravisor" in result.output
    assert "PCRs" in result.output and "as accepted" in result.output
    found = shown(folder, *pins(4))
    assert (found["profile"], found["guest"]["nonce"], found["guest"]["pcrs_appraised"]) == (
        "azure-vtpm",
        "held",
        True,
    )


def test_pcrs_that_are_not_appraised_are_said_so(folder: Path) -> None:
    assert "NOT APPRAISED" in run(folder).output
    assert shown(folder)["guest"]["pcrs_appraised"] is False


@pytest.mark.parametrize(
    ("more", "how", "code"),
    [
        ((), {"nonce": b"n" * 32}, "azure.nonce"),
        (tuple(pins(4, pcr4=b"x" * 32)), {}, "azure.appraisal"),
        (("--pcr", f"5={bytes(32).hex()}"), {}, "azure.appraisal"),
        (("--user-data", "01" * 64), {}, "azure.appraisal"),
    ],
)
def test_what_does_not_hold_is_refused(
    folder: Path, more: tuple[str, ...], how: dict[str, Any], code: str
) -> None:
    found = shown(folder, *more, **how)
    assert (found["exit_code"], found["tier"], found["refused"]["code"]) == (20, "contraindicated", code)


def test_a_td_quote_that_does_not_vouch_for_the_report_is_refused(
    folder: Path, platform: SimulatedPlatform
) -> None:
    (folder / "e.json").write_bytes(document(platform, report_data=bytes(64)))
    assert shown(folder)["refused"]["code"] == "azure.binding"


def test_a_platform_that_is_refused_refuses_the_guest(folder: Path, platform: SimulatedPlatform) -> None:
    revoked = replace(platform, revoked=frozenset((CertificateRole.PCK,)))
    (folder / "c.json").write_bytes(revoked.collateral(NOW).to_bytes())
    found = shown(folder, *pins(4))
    assert (found["exit_code"], found["guest"]) == (20, None)
    assert found["platform"]["refused"]["code"] == "cert.revoked"


def test_a_platform_that_is_not_what_the_policy_accepts_is_refused(folder: Path) -> None:
    found = shown(folder, *pins(4), "--policy", str(SIMULATED_POLICY))
    assert (found["exit_code"], found["platform"]["tier"]) == (20, "contraindicated")


@pytest.mark.parametrize("content", [b"", b"{}", b"[1]", b"\xff", b'{"typ":"affiant-azure-vtpm/1"}'])
def test_what_is_no_such_evidence_is_refused(folder: Path, content: bytes) -> None:
    (folder / "e.json").write_bytes(content)
    assert shown(folder)["refused"]["code"] == "azure.malformed"


def test_a_td_quote_alone_is_no_such_evidence_and_says_so(folder: Path, platform: SimulatedPlatform) -> None:
    from tests.attestation.tdx.conftest import quote_of

    (folder / "e.json").write_bytes(quote_of(platform))
    assert shown(folder)["refused"]["code"] == "azure.malformed"


@pytest.mark.parametrize(
    "arguments",
    [
        ("--nonce", "00"),
        ("--pcr", "24=" + "00" * 32),
        ("--pcr", "4=00"),
        ("--pcr", "4"),
        ("--user-data", "00"),
        ("--cache", "."),
    ],
)
def test_a_mistake_of_the_command_line_is_usage(folder: Path, arguments: tuple[str, ...]) -> None:
    assert run(folder, *arguments).exit_code == 2


@pytest.mark.parametrize(
    ("platform_tier", "pcrs", "tier", "code"),
    [
        (Tier.AFFIRMING, True, Tier.WARNING, 10),
        (Tier.WARNING, True, Tier.WARNING, 10),
        (Tier.AFFIRMING, False, Tier.NONE, 30),
        (Tier.NONE, True, Tier.NONE, 30),
        (Tier.CONTRAINDICATED, True, Tier.CONTRAINDICATED, 20),
    ],
)
def test_on_hardware_a_warning_is_the_best_there_is(
    platform: SimulatedPlatform, platform_tier: Tier, pcrs: bool, tier: Tier, code: int
) -> None:  # fmt: skip
    """No test has hardware: the platform's verdict is given, the combination is what is looked at."""

    class OnHardware:
        simulated = False

        def __init__(self, given: Tier) -> None:
            self.tier = given

    verdict = AzureVerdict(
        document="sha256:",
        platform=OnHardware(platform_tier),  # type: ignore[arg-type]
        guest=None,
        pcrs_appraised=pcrs,
        user_data_asked=False,
        refusal=None,
    )
    assert (verdict.tier, verdict.exit_code) == (tier, code)


def test_user_data_hold_if_they_are_all_of_the_guests_own(folder: Path, platform: SimulatedPlatform) -> None:
    assert shown(folder, "--user-data", "00" * 64)["exit_code"] == 40
    question = AzureQuestion(
        platform=Question(at=NOW, roots=trust_of(platform)), nonce=NONCE, pcrs={}, user_data=b"\x01" * 64
    )
    verdict = judge_azure(document(platform), lambda _: platform.collateral(NOW), question, build="test")
    assert verdict.refusal is not None
    assert verdict.refusal.code == "azure.appraisal"
    assert verdict.tier is Tier.CONTRAINDICATED
