"""Asking the witnesses that the gateway's configuration names: all at once, until their quorum has cosigned.

A round asks every witness for its cosignatures over one checkpoint. As soon as those that came are a quorum, the rest
get a moment and are then abandoned; a round whose quorum is missed changes nothing. What each witness last did is kept
for the operator, and a change of it is logged once: a witness that finds another tree than ours is not something to
retry.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Final

from affiant.attestation.log.witness.client import Cosignatures, ProofSource, WitnessKey, ask_witness
from affiant.attestation.tlog.errors import QuorumMissed
from affiant.attestation.tlog.note import Note, NoteSignature
from affiant.attestation.tlog.note_keys import LogKey
from affiant.attestation.tlog.quorum import Witnessed, WitnessPolicy, verify_quorum
from affiant.errors import AffiantError

if TYPE_CHECKING:
    import httpx

__all__ = ["OWN_WITNESS_SOCKET", "WitnessBounds", "Witnesses"]

OWN_WITNESS_SOCKET: Final = "witness.sock"
"""In the gateway's store: where the witness that was started for it is asked."""
_log = logging.getLogger("affiant.gateway")
_COSIGNED: Final = "cosigned"
_FAULT: Final = "fault"


@dataclass(frozen=True, slots=True)
class WitnessBounds:
    """How long witnesses are waited for.

    Args:
        interval_s: seconds between rounds while no caller waits for one.
        spacing_s: seconds between rounds at least, however many wait.
        wait_s: seconds that a caller waits for a round: witnesses that hang delay no answer for longer.
        answer_s: seconds for each of at most two questions to a witness.
        grace_s: seconds that those still under way get once there is a quorum.
    """

    interval_s: float = 10.0
    spacing_s: float = 0.5
    wait_s: float = 3.0
    answer_s: float = 5.0
    grace_s: float = 1.0


class Witnesses:
    """The witnesses of one log, and how far each is known to be. Used in the event loop's thread.

    Args:
        policy: each of its witnesses has a URL, and there is a quorum.
        log: the log's key.
        client: of ``make_client``.
        clock: wall-clock time, UTC.
    """

    def __init__(
        self,
        policy: WitnessPolicy,
        log: LogKey,
        *,
        client: httpx.AsyncClient,
        clock: Callable[[], datetime],
        bounds: WitnessBounds,
    ) -> None:
        self._policy, self._log_key, self._client = policy, log, client
        self._clock, self.bounds = clock, bounds
        self._keys = _by_address(policy)
        self._sizes = dict.fromkeys(self._keys, 0)
        self._states = dict.fromkeys(self._keys, "not asked")

    async def cosign(self, note: Note, size: int, proof: ProofSource) -> Witnessed:
        """``note``, a checkpoint over ``size`` leaves, with the cosignatures of a quorum.

        Raises:
            QuorumMissed: too few have cosigned; what each did is in :meth:`report`.
        """
        asking = {
            asyncio.create_task(self._ask(address, note, size, proof)): address for address in self._keys
        }
        lines: list[NoteSignature] = []
        try:
            pending: Collection[asyncio.Task[Cosignatures | None]] = asking
            while pending:
                limit = self.bounds.grace_s if self._is_quorum(note, lines) else None
                done, pending = await asyncio.wait(
                    pending, timeout=limit, return_when=asyncio.FIRST_COMPLETED
                )
                if not done:
                    break
                for task in done:
                    if (found := task.result()) is not None:
                        lines.extend(found.lines)
        finally:
            for task in asking:
                task.cancel()
            await asyncio.gather(*asking, return_exceptions=True)
        return self._judge(note, lines)

    def report(self) -> Mapping[str, str]:
        """Address of each witness -> ``cosigned``, ``not asked``, ``fault``, or the code of its last refusal."""
        return dict(self._states)

    async def close(self) -> None:
        """Let go of the connections."""
        await self._client.aclose()

    async def _ask(self, address: str, note: Note, size: int, proof: ProofSource) -> Cosignatures | None:
        try:
            found = await ask_witness(
                address,
                note,
                proof,
                keys=self._keys[address],
                old=min(self._sizes[address], size),
                now=int(self._clock().timestamp()),
                client=self._client,
                answer_s=self.bounds.answer_s,
            )
        except AffiantError as error:
            self._note_state(address, error.code, str(error))
            return None
        except Exception as error:  # noqa: BLE001 - a mistake of ours over one witness must not silence the others
            self._note_state(address, _FAULT, f"{address}: {type(error).__name__}")
            return None
        self._sizes[address] = size
        self._note_state(address, _COSIGNED, "")
        return found

    def _note_state(self, address: str, state: str, why: str) -> None:
        before, self._states[address] = self._states[address], state
        if state == before:
            return
        if state != _COSIGNED:
            _log.error("a witness does not cosign: %s", why)
        elif before != "not asked":
            _log.warning("the witness %s cosigns again", address)

    def _judge(self, note: Note, lines: Collection[NoteSignature]) -> Witnessed:
        cosigned = Note(note.text, (*note.signatures, *lines))
        return verify_quorum(cosigned, self._policy, logs=[self._log_key])

    def _is_quorum(self, note: Note, lines: Collection[NoteSignature]) -> bool:
        try:
            self._judge(note, lines)
        except QuorumMissed:
            return False
        return True


def _by_address(policy: WitnessPolicy) -> Mapping[str, tuple[WitnessKey, ...]]:
    """One witness may have two keys; it is asked once."""
    found: dict[str, tuple[WitnessKey, ...]] = {}
    for witness in policy.witnesses.values():
        assert witness.url is not None, "the configuration was checked"
        assert not isinstance(witness.key, LogKey), "a policy's witnesses have cosignature keys"
        found[witness.url] = (*found.get(witness.url, ()), witness.key)
    return found
