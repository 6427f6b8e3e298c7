"""A simulated platform makes the quotes that the fakes hand out."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler

import pytest
from tests.attestation.quote.providers.azure import FakeIMDS, reply
from tests.attestation.quote.providers.fake_kernel import FakeTDX
from tests.attestation.quote.providers.paravisor import Paravisor
from tests.attestation.quote.providers.software_tpm import SoftwareTPM, missing

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.quote.providers.clouds.azure_guest import HCL_REPORT_INDEX, USER_DATA_INDEX
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.evidence_source import TDRegisters

REPORT_DATA = hashlib.sha512(b"a statement").digest()


def random_bytes(size: int) -> bytes:
    return hashlib.shake_256(b"names").digest(size)


def launch(machine: SimulatedPlatform) -> TDRegisters:
    return machine.launch(Image.SESSION, mrconfigid=b"\x01" * 48, mrtd=b"\x02" * 48, td_id=bytes(32))


@pytest.fixture(scope="session")
def machine() -> SimulatedPlatform:
    return SimulatedPlatform.create(now=datetime(2026, 5, 4, tzinfo=UTC), random_bytes=random_bytes)


@pytest.fixture(scope="session")
def quoting(machine: SimulatedPlatform) -> Callable[[bytes], bytes]:
    """Report data -> quote of one TD."""
    registers = launch(machine)
    return lambda data: machine.quote(registers, data.ljust(64, b"\0"))


@pytest.fixture
def tdx(machine: SimulatedPlatform) -> FakeTDX:
    """The kernel of a TD on ``machine``."""
    return FakeTDX(launch(machine), machine.quote)


@pytest.fixture(scope="session")
def software_tpm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SoftwareTPM]:
    """A real TPM 2.0 in software."""
    if (reason := missing()) is not None:
        pytest.skip(reason)
    running = SoftwareTPM(tmp_path_factory.mktemp("swtpm"))
    yield running
    running.close()


@pytest.fixture
def paravisor(software_tpm: SoftwareTPM, machine: SimulatedPlatform) -> Iterator[Paravisor]:
    yield Paravisor(software_tpm.transport(), machine, launch(machine))
    for index in (HCL_REPORT_INDEX, USER_DATA_INDEX):
        if f"{index:x}" in software_tpm.tool("tpm2_getcap", "handles-nv-index").lower():
            software_tpm.tool("tpm2_nvundefine", "-C", "o", hex(index))


@pytest.fixture
def imds(paravisor: Paravisor) -> Iterator[FakeIMDS]:
    def answer(handler: BaseHTTPRequestHandler, body: bytes) -> None:
        report = from_b64u(json.loads(body)["report"])
        quote = paravisor.machine.quote(paravisor.registers, report[128:192])
        reply(handler, json.dumps({"quote": b64u(quote)}).encode())

    running = FakeIMDS(answer)
    yield running
    running.close()
