"""One quote by whichever source is there: past what is absent, past nothing else, and what was used is said."""

from __future__ import annotations

import errno
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.attestation.quote.providers.azure import FakeIMDS
from tests.attestation.quote.providers.conftest import REPORT_DATA, random_bytes
from tests.attestation.quote.providers.dstack_agent import Agent, ok
from tests.attestation.quote.providers.fake_kernel import FakeTSM, refuse
from tests.attestation.quote.providers.paravisor import Paravisor

from affiant.attestation.quote.providers import collection as taking
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ProviderDenied,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.clouds.azure_document import parse_azure_evidence
from affiant.attestation.quote.providers.collection import (
    AUTO_ORDER,
    CollectedEvidence,
    EvidenceRequest,
    ProviderName,
    collect,
)
from affiant.attestation.quote.providers.kernel import configfs_tsm
from affiant.attestation.quote.providers.machine_paths import Places
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.errors import AffiantError

NONCE = bytes(range(32))


@pytest.fixture
def places(tmp_path: Path) -> Places:
    """A machine that has nothing."""
    return Places(
        home=tmp_path,
        tsm_root=tmp_path / "tsm",
        dstack_socket=tmp_path / "dstack.sock",
        tappd_socket=tmp_path / "tappd.sock",
        tpm_device=tmp_path / "tpmrm0",
        imds="http://127.0.0.1:1",
    )


@pytest.fixture
def tsm(monkeypatch: pytest.MonkeyPatch, quoting: Callable[[bytes], bytes]) -> FakeTSM:
    """The kernel has configfs-tsm now, wherever its root is named."""
    fake = FakeTSM(quoting)
    monkeypatch.setattr(configfs_tsm, "OSKernelFiles", lambda: fake)
    return fake


@pytest.fixture
def agent(places: Places, quoting: Callable[[bytes], bytes]) -> Iterator[Agent]:
    running = Agent(places.dstack_socket)
    running.answer = lambda body: ok(
        json.dumps({"quote": quoting(bytes.fromhex(body["report_data"])).hex()}).encode()
    )
    yield running
    running.close()


def taken(places: Places, source: ProviderName | None = None, **asked: bytes) -> CollectedEvidence:
    return collect(
        EvidenceRequest(**asked), places, source=source, random_bytes=random_bytes, sleep=lambda _: None
    )


def real_root(places: Places) -> Places:
    return Places(
        home=places.home,
        dstack_socket=places.dstack_socket,
        tappd_socket=places.tappd_socket,
        tpm_device=places.tpm_device,
        imds=places.imds,
    )


def test_the_kernel_goes_before_the_agent(places: Places, tsm: FakeTSM, agent: Agent) -> None:
    found = taken(real_root(places), report_data=REPORT_DATA)
    assert (found.source, found.profile, found.simulated) == ("configfs-tsm", "tdx", False)
    assert parse_quote(found.content).body.report_data == REPORT_DATA
    assert (found.passed_over, agent.asked) == ((), [])


def test_what_is_absent_is_passed_over_and_said(places: Places, agent: Agent) -> None:
    found = taken(places, report_data=REPORT_DATA)
    assert found.source == "dstack"
    assert [(name, type(error)) for name, error in found.passed_over] == [("configfs-tsm", ProviderAbsent)]


@pytest.mark.parametrize(
    ("number", "expected"),
    [(errno.EACCES, ProviderDenied), (errno.EBUSY, ProviderBusy), (errno.EINVAL, ResponseRefused)],
)
def test_a_source_that_is_there_and_refuses_ends_it(
    places: Places, tsm: FakeTSM, agent: Agent, number: int, expected: type[AffiantError]
) -> None:
    """What it says is what the caller should see, rather than another's quote."""

    def fail(_: Path) -> None:
        raise refuse(number)

    tsm.before_read = [fail] * 3
    with pytest.raises(expected):
        taken(real_root(places), report_data=REPORT_DATA)
    assert agent.asked == []


def test_a_machine_without_any_says_what_was_looked_for(places: Places) -> None:
    with pytest.raises(ProviderAbsent, match=r"configfs-tsm: .*dstack: .*Azure") as refused:
        taken(places, report_data=REPORT_DATA)
    assert "azure-vtpm: " not in str(refused.value)
    with pytest.raises(ProviderAbsent, match="azure-vtpm: there is no TPM"):
        taken(places, report_data=REPORT_DATA, nonce=NONCE)


def test_the_simulated_platform_is_never_taken_unasked(
    places: Places, monkeypatch: pytest.MonkeyPatch
) -> None:
    def used(*_: object, **__: object) -> None:
        raise AssertionError("the simulated platform was asked")

    monkeypatch.setattr(taking, "PlatformClient", used)
    with pytest.raises(ProviderAbsent):
        taken(places, report_data=REPORT_DATA, nonce=NONCE)
    assert ProviderName.SIMULATED not in AUTO_ORDER


@pytest.mark.parametrize(
    ("source", "asked"),
    [
        (None, {}),
        (None, {"user_data": bytes(64)}),
        (None, {"report_data": REPORT_DATA, "user_data": bytes(64)}),
        (ProviderName.CONFIGFS_TSM, {}),
        (ProviderName.CONFIGFS_TSM, {"nonce": NONCE}),
        (ProviderName.DSTACK, {"report_data": REPORT_DATA, "nonce": NONCE}),
        (ProviderName.SIMULATED, {"report_data": REPORT_DATA, "user_data": bytes(64)}),
        (ProviderName.AZURE_VTPM, {"report_data": REPORT_DATA}),
        (ProviderName.AZURE_VTPM, {"report_data": REPORT_DATA, "nonce": NONCE}),
    ],
)
def test_nothing_that_was_given_is_left_out_in_silence(
    places: Places, source: ProviderName | None, asked: dict[str, bytes]
) -> None:
    with pytest.raises(SettingsInvalid):
        taken(places, source, **asked)


@pytest.mark.parametrize("source", [ProviderName.CONFIGFS_TSM, ProviderName.DSTACK, ProviderName.SIMULATED])
def test_report_data_of_another_size_is_refused_by_every_source(places: Places, source: ProviderName) -> None:
    with pytest.raises(SettingsInvalid, match="another size"):
        taken(places, source, report_data=bytes(63))


def test_azures_evidence_is_a_document_of_its_own_profile(
    places: Places,
    paravisor: Paravisor,
    imds: FakeIMDS,
    monkeypatch: pytest.MonkeyPatch,
    machine: SimulatedPlatform,
) -> None:
    monkeypatch.setattr(taking, "TPMDevice", lambda _: paravisor)
    here = Places(
        home=places.home, tsm_root=places.tsm_root, dstack_socket=places.dstack_socket,
        tappd_socket=places.tappd_socket, imds=imds.base,
    )  # fmt: skip
    found = taken(here, report_data=REPORT_DATA, nonce=NONCE)
    assert (found.source, found.profile) == ("azure-vtpm", "azure-vtpm")
    assert [name for name, _ in found.passed_over] == ["configfs-tsm", "dstack"]
    assert sorted(parse_azure_evidence(found.content).evidence.pcrs) == list(range(24))
    with pytest.raises(AffiantError):
        parse_quote(found.content)
