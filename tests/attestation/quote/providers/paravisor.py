"""What stands between an Azure guest and its vTPM: user data that it sees written is in the next HCL report."""

from __future__ import annotations

import hashlib
from collections.abc import Callable

from cryptography.hazmat.primitives.asymmetric.rsa import RSAPublicKey
from tests.attestation.quote.providers.azure import hcl_report, runtime_data
from tests.attestation.quote.providers.fake_kernel import td_report

from affiant.attestation.quote.providers.clouds.azure_guest import (
    ATTESTATION_KEY,
    HCL_REPORT_INDEX,
    USER_DATA_INDEX,
)
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.quote.providers.tpm.tpm_device import TPMTransport
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.statements.evidence_source import TDRegisters

NV_WRITE = 0x137


class Paravisor:
    """Between the guest and its TPM: what it sees written to the user data's index is in the next HCL report."""

    def __init__(self, transport: TPMTransport, machine: SimulatedPlatform, registers: TDRegisters) -> None:
        self.transport = transport
        self.machine = machine
        self.own = TPM(transport)
        self.key: RSAPublicKey = self.own.read_public(ATTESTATION_KEY)
        self.user_data = bytes(64)
        self.deaf = False
        self.after: Callable[[int], None] = lambda _: None
        self.registers = registers
        self.size = len(self.hcl())
        self.own.nv_define(HCL_REPORT_INDEX, self.size)
        self.put()

    def hcl(self, *, report_data: bytes | None = None) -> bytes:
        runtime = runtime_data(self.key, user_data=self.user_data.hex().upper())
        digest = hashlib.sha256(runtime).digest() + bytes(32)
        return hcl_report(runtime, td_report=td_report(self.registers, report_data or digest), tail=0)

    def put(self, content: bytes | None = None) -> None:
        self.own.nv_write(HCL_REPORT_INDEX, (content or self.hcl()).ljust(self.size, b"\0"))

    def transmit(self, command: bytes) -> bytes:
        answer = self.transport.transmit(command)
        code, index = int.from_bytes(command[6:10], "big"), int.from_bytes(command[14:18], "big")
        if code == NV_WRITE and index == USER_DATA_INDEX and not self.deaf:
            self.user_data = self.own.nv_read(USER_DATA_INDEX)
            self.put()
        self.after(code)
        return answer
