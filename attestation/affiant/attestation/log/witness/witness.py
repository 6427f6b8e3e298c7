"""Runs the witness: the protocol's steps with its state, its keys and its evidence.

The order is the safety: a tree is compared and stored in one transaction, that is durable, then the cosignatures are
made, then they are sent. A witness that dies in between has promised less than it has stored.
"""

from __future__ import annotations

import hashlib
import logging
from dataclasses import dataclass, field

from affiant.attestation.log.witness.checkpoint_request import parse_submission
from affiant.attestation.log.witness.errors import WitnessRequestMalformed
from affiant.attestation.log.witness.evidence import EvidenceFolder
from affiant.attestation.log.witness.keys import WitnessKeys
from affiant.attestation.log.witness.protocol import (
    Accepted,
    Admitted,
    Contradiction,
    Logs,
    WitnessResponse,
    admit,
    advance,
)
from affiant.attestation.log.witness.state import WitnessState
from affiant.attestation.tlog.note import Note
from affiant.command_line import printable
from affiant.errors import ConfigurationError, StateError

__all__ = ["MAX_LOGS", "Witness", "origin_hash"]

MAX_LOGS = 1000
_log = logging.getLogger("affiant.witness")


def origin_hash(origin: str) -> str:
    """How monitors name a log: SHA-256 of its origin, in hexadecimal."""
    return hashlib.sha256(origin.encode("utf-8")).hexdigest()


@dataclass(frozen=True, slots=True)
class Witness:
    """One witness.

    Raises:
        ``witness.settings``: no log, or too many.
    """

    keys: WitnessKeys = field(repr=False)
    logs: Logs
    state: WitnessState
    evidence: EvidenceFolder

    def __post_init__(self) -> None:
        if not 0 < len(self.logs) <= MAX_LOGS:
            raise ConfigurationError(
                "no logs to witness, or too many",
                expected=f"1 to {MAX_LOGS}",
                found=len(self.logs),
                code="witness.settings",
            )

    def add_checkpoint(self, body: bytes, *, now: int) -> WitnessResponse:
        """The answer to ``POST add-checkpoint``; what it cosigns is stored by then.

        Args:
            now: seconds since 1970.
        """
        try:
            submission = parse_submission(body)
        except WitnessRequestMalformed as error:
            return WitnessResponse(400, f"{error.message} [{error.code}]\n".encode(), code=error.code)
        admitted = admit(submission, self.logs)
        if isinstance(admitted, WitnessResponse):
            return admitted
        try:
            return self._cosigned(admitted, now)
        except StateError as error:  # nothing was signed; the log may ask again
            _log.error("no cosignature: %s [%s]", printable(str(error)), error.code)
            return WitnessResponse(503, f"not now [{error.code}]\n".encode(), code=error.code)

    def latest(self, hashed: str) -> bytes | None:
        """The note for ``GET <hashed>/checkpoint``, with this witness's cosignatures; None where there is none.

        Raises:
            WitnessStateUnavailable: it cannot be read now.
        """
        for origin in self.logs:
            if origin_hash(origin) == hashed:
                return self.state.cosigned(origin)
        return None

    def _cosigned(self, admitted: Admitted, now: int) -> WitnessResponse:
        origin = admitted.submission.origin
        outcome = self.state.advance(origin, lambda stored: advance(admitted, stored, now=now))
        if not isinstance(outcome, Accepted):
            if outcome.contradiction is not None:
                self._keep(outcome.contradiction, origin, now)
            return outcome.answer
        text, stored = outcome.signed.text, outcome.stored
        lines = self.keys.cosign(text, stored.seconds)
        self.state.publish(origin, stored.size, Note(text, (*outcome.signed.signatures, *lines)).to_bytes())
        return WitnessResponse(200, "".join(each.line() for each in lines).encode("utf-8"))

    def _keep(self, found: Contradiction, origin: str, now: int) -> None:
        try:
            place = self.evidence.keep(found, origin=origin, seconds=now)
        except OSError as error:
            _log.error("evidence cannot be written: %s", error.strerror)
            place = None
        what = "CONTRADICTION" if found.certain else "unproven growth"
        _log.error(
            "%s in %s: both notes are in %s", what, printable(origin, limit=255), place or "no file: too many"
        )
