"""Decides under which keys a checkpoint counts: a log's own key, or a policy of logs and witnesses."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from affiant.attestation.log_reading.errors import LogSettingsInvalid
from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import NoteMalformed, QuorumMalformed
from affiant.attestation.tlog.note import Note, verify_note
from affiant.attestation.tlog.note_keys import LogKey, parse_vkey
from affiant.attestation.tlog.quorum import WitnessPolicy, parse_witness_policy, verify_quorum

__all__ = ["LogTrust", "SignedCheckpoint", "trust_of"]


@dataclass(frozen=True, slots=True)
class SignedCheckpoint:
    """A checkpoint that counts. Only :meth:`LogTrust.verify` makes one.

    Args:
        times: witness -> seconds since 1970; empty where no policy asks for witnesses.
    """

    checkpoint: Checkpoint
    note: Note
    times: Mapping[str, int]


@dataclass(frozen=True, slots=True)
class LogTrust:
    """The keys of logs and, with a policy, its quorum of witnesses. At least one key of a log.

    Raises:
        LogSettingsInvalid: no key: then nothing could ever be believed.
    """

    keys: tuple[LogKey, ...]
    policy: WitnessPolicy | None = None

    def __post_init__(self) -> None:
        if not self.keys:
            raise LogSettingsInvalid("no key of a log", expected="one at least; a policy with a `log` line")

    def verify(self, note: Note) -> SignedCheckpoint:
        """``note`` as a checkpoint of one of the logs and, with a policy, of its quorum.

        Raises:
            CheckpointMalformed, NoteSignatureInvalid, QuorumMissed: as named.
        """
        if self.policy is not None:
            witnessed = verify_quorum(note, self.policy)
            return SignedCheckpoint(witnessed.checkpoint, note, witnessed.times)
        return self.verify_log(note)

    def verify_log(self, note: Note) -> SignedCheckpoint:
        """The same, by the log's own signature alone.

        Raises:
            CheckpointMalformed, NoteSignatureInvalid: as named.
        """
        checkpoint = parse_checkpoint(note.text)
        verify_note(note, [key for key in self.keys if key.name == checkpoint.origin])
        return SignedCheckpoint(checkpoint, note, MappingProxyType({}))


def trust_of(vkeys: Iterable[str], policy: bytes | None) -> LogTrust:
    """The trust that a user names: keys of a log, or the bytes of a policy.

    Raises:
        LogSettingsInvalid: neither or both, or one that is malformed or no log's.
    """
    texts = tuple(vkeys)
    if bool(texts) == (policy is not None):
        raise LogSettingsInvalid("name what you accept", expected="keys of the log, or a policy; not both")
    try:
        if policy is not None:
            parsed = parse_witness_policy(policy)
            return LogTrust(tuple(parsed.logs), parsed)
        keys = [parse_vkey(text.strip()) for text in texts]
    except (NoteMalformed, QuorumMalformed) as error:
        raise LogSettingsInvalid(f"not to be read: {error}") from error
    if not all(isinstance(key, LogKey) for key in keys):
        raise LogSettingsInvalid("a key that is no log's", expected="Ed25519 (0x01)")
    return LogTrust(tuple(key for key in keys if isinstance(key, LogKey)))
