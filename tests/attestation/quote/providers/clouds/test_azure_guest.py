"""Azure's evidence from a machine: the TPM is a real one (swtpm), paravisor and metadata service are fakes on loopback.

The quotes are signed by the simulated platform, and nothing here has run on Azure.
"""

from __future__ import annotations

import hashlib
import json
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from tests.attestation.quote.providers.azure import FakeIMDS, reply
from tests.attestation.quote.providers.paravisor import Paravisor
from tests.attestation.quote.providers.software_tpm import SoftwareTPM
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.quote.providers.base.errors import (
    ProviderAbsent,
    ProviderBusy,
    ResponseRefused,
    SettingsInvalid,
)
from affiant.attestation.quote.providers.clouds.azure_guest import (
    AzureGuest,
)
from affiant.attestation.quote.providers.clouds.azure_imds import AzureIMDS
from affiant.attestation.quote.providers.clouds.azure_vtpm import PROFILE, verify_azure_vtpm
from affiant.attestation.quote.providers.tpm.tpm import TPM
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import verify_collateral
from affiant.attestation.tdx.verify.verify import VerifiedQuote, verify_quote

NOW = datetime(2026, 5, 4, tzinfo=UTC)
NONCE = hashlib.sha256(b"a verifier's nonce").digest()
USER_DATA = hashlib.sha512(b"a guest's keys").digest()


@pytest.fixture
def guest(paravisor: Paravisor, imds: FakeIMDS) -> AzureGuest:
    return AzureGuest(TPM(paravisor), AzureIMDS(imds.base), sleep=lambda _: None)


def verified(machine: SimulatedPlatform, quote: bytes) -> VerifiedQuote:
    trust = TrustRoots.pinned((machine.root_spki(),))
    collateral = verify_collateral(machine.collateral(NOW), now=NOW, trust=trust)
    return verify_quote(parse_quote(quote), collateral, now=NOW)


def test_what_is_taken_is_what_the_profile_verifies(
    guest: AzureGuest, machine: SimulatedPlatform, software_tpm: SoftwareTPM
) -> None:
    software_tpm.tool("tpm2_pcrextend", f"9:sha256={'5a' * 32}")
    taken = guest.collect(NONCE)
    found = verify_azure_vtpm(taken.evidence, verified(machine, taken.td_quote), nonce=NONCE)
    assert (found.profile, found.nonce, found.user_data) == (PROFILE, NONCE, bytes(64))
    assert str(found.platform.evidence_class) == "simulated"
    assert sorted(found.pcrs) == list(range(24))
    assert any(found.pcrs[9])
    with raises_code("azure.nonce"):
        verify_azure_vtpm(taken.evidence, verified(machine, taken.td_quote), nonce=bytes(32))


def test_user_data_gets_into_what_the_td_quote_vouches_for(
    guest: AzureGuest, machine: SimulatedPlatform
) -> None:
    before = guest.collect(NONCE)
    taken = guest.collect(NONCE, user_data=USER_DATA, pcrs=(0, 4))
    found = verify_azure_vtpm(taken.evidence, verified(machine, taken.td_quote), nonce=NONCE)
    assert (found.user_data, sorted(found.pcrs)) == (USER_DATA, [0, 4])
    assert parse_quote(before.td_quote).body.report_data != found.platform.quote.body.report_data
    again = guest.collect(NONCE, user_data=bytes(64))  # the index is there already
    assert verify_azure_vtpm(
        again.evidence, verified(machine, again.td_quote), nonce=NONCE
    ).user_data == bytes(64)


def test_a_paravisor_that_takes_its_time_is_waited_for(paravisor: Paravisor, imds: FakeIMDS) -> None:
    paravisor.deaf, slept = True, list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            paravisor.user_data = USER_DATA
            paravisor.put()

    AzureGuest(TPM(paravisor), AzureIMDS(imds.base), sleep=sleep).collect(NONCE, user_data=USER_DATA)
    assert len(slept) == 3


def test_a_paravisor_that_knows_no_user_data_is_given_up(
    paravisor: Paravisor, guest: AzureGuest, imds: FakeIMDS
) -> None:
    paravisor.deaf = True
    with pytest.raises(ProviderBusy, match="no report with the user data"):
        guest.collect(NONCE, user_data=USER_DATA)
    assert imds.asked == []


@pytest.mark.parametrize(
    ("nonce", "user_data"), [(NONCE[:31], None), (b"", None), (NONCE, bytes(63)), (NONCE, b"")]
)
def test_a_nonce_or_user_data_of_another_size_is_never_padded(
    guest: AzureGuest, nonce: bytes, user_data: bytes | None
) -> None:
    with pytest.raises(SettingsInvalid):
        guest.collect(nonce, user_data=user_data)


def test_another_key_in_the_tpm_than_in_the_report_is_refused(
    paravisor: Paravisor, guest: AzureGuest
) -> None:
    paravisor.key = rsa.generate_private_key(65537, 2048).public_key()
    paravisor.put()
    with pytest.raises(ResponseRefused, match="0x81000003"):
        guest.collect(NONCE)


def test_a_tdreport_over_other_runtime_data_is_refused_before_anybody_is_asked(
    paravisor: Paravisor, guest: AzureGuest, imds: FakeIMDS
) -> None:
    paravisor.put(paravisor.hcl(report_data=bytes(64)[:-1] + b"\1"))
    with pytest.raises(ResponseRefused, match="other report data"):
        guest.collect(NONCE)
    assert imds.asked == []


def test_a_quote_for_another_report_is_refused(
    guest: AzureGuest, imds: FakeIMDS, paravisor: Paravisor
) -> None:
    quote = paravisor.machine.quote(paravisor.registers, bytes(64))
    imds.answer = lambda handler, _: reply(handler, json.dumps({"quote": b64u(quote)}).encode())
    with pytest.raises(ResponseRefused, match="other report data"):
        guest.collect(NONCE)


def test_a_vtpm_that_signs_another_nonce_is_refused(paravisor: Paravisor, imds: FakeIMDS) -> None:
    class Changed:
        def transmit(self, command: bytes) -> bytes:
            return paravisor.transmit(command.replace(NONCE, bytes(32)))

    with pytest.raises(ResponseRefused, match="another nonce"):
        AzureGuest(TPM(Changed()), AzureIMDS(imds.base), sleep=lambda _: None).collect(NONCE)


def test_a_pcr_that_moves_between_quote_and_reading_is_quoted_again(
    guest: AzureGuest, paravisor: Paravisor, software_tpm: SoftwareTPM, machine: SimulatedPlatform
) -> None:
    quotes = []

    def extend(code: int) -> None:
        if code == 0x158:
            quotes.append(code)
            if len(quotes) < 3:
                software_tpm.tool("tpm2_pcrextend", f"12:sha256={'5a' * 32}")

    paravisor.after = extend
    taken = guest.collect(NONCE)
    assert len(quotes) == 3
    verify_azure_vtpm(taken.evidence, verified(machine, taken.td_quote), nonce=NONCE)
    quotes.clear()
    paravisor.after = lambda code: extend(code) if not quotes.clear() else None
    with pytest.raises(ProviderBusy, match="do not stand still"):
        guest.collect(NONCE)


def test_a_vtpm_without_an_hcl_report_is_no_azure(software_tpm: SoftwareTPM) -> None:
    with pytest.raises(ProviderAbsent, match="TPM2_NV_ReadPublic"):
        AzureGuest(TPM(software_tpm.transport()), AzureIMDS(), sleep=lambda _: None).collect(NONCE)
