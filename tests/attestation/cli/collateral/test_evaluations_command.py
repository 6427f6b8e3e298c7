"""``affiant collateral evaluations`` over real HTTPS on loopback: verified, or nothing is said."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.serialization import Encoding
from tests.attestation.quote.collateral.conftest import random_bytes
from tests.attestation.quote.collateral.pcs_server import (
    EVALUATIONS_HEADER,
    PCSServer,
    Step,
    reply,
    serve,
    url_encoded,
)

from affiant.__main__ import cli
from affiant.attestation.simulated.platform.keys import Role, derive_key
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.simulated.platform.tcb_documents import sign_document

TODAY = datetime.now(UTC).replace(microsecond=0)
PLATFORM = SimulatedPlatform.create(now=TODAY - timedelta(days=50), random_bytes=random_bytes("evaluations"))


def listed(*numbers: int, role: Role = Role.TCB_SIGNING, **headers: str) -> list[Step]:
    text = json.dumps(
        {
            "id": "TDX",
            "version": 1,
            "issueDate": f"{TODAY - timedelta(days=1):%Y-%m-%dT%H:%M:%SZ}",
            "nextUpdate": f"{TODAY + timedelta(days=29):%Y-%m-%dT%H:%M:%SZ}",
            "tcbEvalNumbers": [
                {
                    "tcbEvaluationDataNumber": number,
                    "tcbRecoveryEventDate": f"20{number}-02-10T00:00:00Z",
                    "tcbDate": f"20{number}-02-11T00:00:00Z",
                }
                for number in numbers
            ],
        }
    ).encode()
    body = sign_document("tcbEvaluationDataNumbers", text, derive_key(PLATFORM.seed, role))
    chain = url_encoded(PLATFORM.collateral(TODAY).tcb_info_issuer_chain)
    return reply(body, **{"content-type": "application/json", EVALUATIONS_HEADER.lower(): chain} | headers)


@pytest.fixture
def server(tls: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[PCSServer]:
    monkeypatch.chdir(tmp_path)
    root = PLATFORM.certificates.of(CertificateRole.ROOT).public_bytes(Encoding.PEM)
    Path("root.pem").write_bytes(root)
    with serve(PLATFORM.collateral(TODAY), tls) as running:
        running.scripts["evaluation_numbers"] = lambda _: listed(20, 19)
        yield running


def run(server: PCSServer, *more: str) -> Result:
    service = ("--pccs", server.url, "--tls-ca", str(server.ca), "--root", "root.pem")
    return CliRunner().invoke(cli, ["collateral", "evaluations", *service, *more])


def test_the_list_is_printed_and_nothing_is_written(server: PCSServer) -> None:
    done = run(server)
    assert done.exit_code == 0, done.output
    assert "verified under a SIMULATED root" in done.output
    assert [line.split() for line in done.output.splitlines()[-2:]] == [
        ["20", "2020-02-10", "2020-02-11"],
        ["19", "2019-02-10", "2019-02-11"],
    ]
    assert [path.name for path in Path().iterdir()] == ["root.pem"]
    assert server.items() == ["evaluation_numbers", "root_ca_crl"]


def test_the_document_says_the_same(server: PCSServer) -> None:
    document = json.loads(run(server, "--json").output)
    assert (document["typ"], document["simulated"]) == ("affiant-collateral-evaluations/1", True)
    assert document["evaluations"][0] == {
        "number": 20,
        "recovery_event": "2020-02-10",
        "tcb_date": "2020-02-11",
    }


def test_a_list_signed_by_another_key_is_refused(server: PCSServer) -> None:
    server.scripts["evaluation_numbers"] = lambda _: listed(20, role=Role.PCK)
    done = run(server, "--json")
    assert (done.exit_code, json.loads(done.output)["refused"]["code"]) == (1, "collateral.signature")


def test_a_revoked_signer_is_refused(server: PCSServer) -> None:
    revoked = replace(PLATFORM, revoked=frozenset((CertificateRole.TCB_SIGNING,)))
    server.collateral = revoked.collateral(TODAY)
    done = run(server)
    assert (done.exit_code, "[cert.revoked]" in done.output) == (1, True)


def test_an_old_pccs_that_has_no_list_is_named(server: PCSServer) -> None:
    server.scripts["evaluation_numbers"] = lambda _: reply(status="404 Not Found")
    done = run(server)
    assert (done.exit_code, "[collateral.unknown]" in done.output) == (1, True)


def test_an_answer_without_its_issuer_chain_is_refused(server: PCSServer) -> None:
    server.scripts["evaluation_numbers"] = lambda _: listed(20, **{EVALUATIONS_HEADER.lower(): ""})
    done = run(server)
    assert (done.exit_code, "[collateral.response]" in done.output) == (1, True)


def test_an_address_without_tls_is_a_mistake_of_the_command_line(server: PCSServer) -> None:
    done = CliRunner().invoke(cli, ["collateral", "evaluations", "--pccs", "http://localhost"])
    assert (done.exit_code, "collateral.settings" in done.output) == (2, True)
