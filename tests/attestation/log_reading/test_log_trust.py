"""A checkpoint counts under the reader's own keys or policy, or not at all."""

from __future__ import annotations

import pytest
from tests.attestation.log_builder import LogBuilder, cosigner, log_signer, mldsa_cosigner
from tests.attestation.log_reading.conftest import VKEY

from affiant.attestation.log_reading.errors import LogSettingsInvalid
from affiant.attestation.log_reading.log_trust import LogTrust, trust_of
from affiant.attestation.tlog.errors import NoteSignatureInvalid, QuorumMissed

POLICY = (
    f"log {VKEY}\nwitness a {cosigner(1).verifier.vkey()}\nwitness b {mldsa_cosigner(2).verifier.vkey()}\n"
    "group both all a b\nquorum both\n"
).encode()


def test_a_key_or_a_policy_decides(built: LogBuilder) -> None:
    assert trust_of([VKEY], None).verify(built.note()).checkpoint == built.checkpoint()
    trust = trust_of([], POLICY)
    assert dict(trust.verify(built.note(None, cosigner(1, 5), mldsa_cosigner(2, 6))).times) == {
        "a": 5,
        "b": 6,
    }
    with pytest.raises(QuorumMissed):
        trust.verify(built.note(None, cosigner(1)))
    assert trust.verify_log(built.note()).times == {}


def test_another_key_or_the_key_of_another_origin_does_not_count(built: LogBuilder) -> None:
    for other in (log_signer(label="other"), log_signer("log.example/other")):
        with pytest.raises(NoteSignatureInvalid):
            trust_of([other.verifier.vkey()], None).verify(built.note())


@pytest.mark.parametrize(
    ("keys", "policy"),
    [
        ([], None),
        ([VKEY], POLICY),
        (["x"], None),
        ([cosigner(1).verifier.vkey()], None),
        ([], b"quorum none\n"),
        ([], b"nonsense"),
    ],
)
def test_what_names_no_log_is_refused(keys: list[str], policy: bytes | None) -> None:
    with pytest.raises(LogSettingsInvalid):
        trust_of(keys, policy)
    with pytest.raises(LogSettingsInvalid):
        LogTrust(())
