"""Keeps a copy of the gateway's log in a store of objects, for as long as the gateway runs.

It is a thread of the launcher, outside of the gateway's TD: no request waits for it, the TD holds no credential of a
cloud, and its environment stays empty. It shows the checkpoint that the gateway shows, cosigned where there are
witnesses, and reads the tiles from the log's folder, which stays the truth: a copy that lags, fails or has stopped
never keeps a session from being admitted.

What may be otherwise later is tried again, less and less often. Where the store has other content the mirror
stops, and says so: it never writes over what was published.
"""

from __future__ import annotations

import json
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Final, Literal

from affiant.attestation.log.publish.anchor_source import AnchorSource
from affiant.attestation.log.publish.publishing import Publisher
from affiant.attestation.log_reading.folder import FolderLog
from affiant.attestation.log_reading.object_store import Objects
from affiant.attestation.tlog.note import MAX_NOTE_BYTES, Note, parse_note
from affiant.errors import AffiantError
from affiant.files import write_whole
from affiant.printable import printable
from affiant.unix_http import OPERATOR_SOCKET, request

__all__ = ["MirrorBounds", "MirrorState", "forget_state", "mirrored", "read_state", "shown_by"]

_STATE: Final = "log-objects.json"
_MAX_STATE: Final = 4096
_STOP_S: Final = 5.0
_TIMEOUT_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class MirrorBounds:
    """How often the store is written to.

    Args:
        look_s: seconds after which the gateway is asked for its checkpoint.
        spacing_s: seconds between two rounds; each new checkpoint costs a few requests.
        retry_s, longest_retry_s: seconds after a failure, doubled each time.
        listing_s: seconds after which the store is listed again, so that a lost object comes back.
    """

    look_s: float = 1.0
    spacing_s: float = 5.0
    retry_s: float = 1.0
    longest_retry_s: float = 60.0
    listing_s: float = 3600.0


@dataclass(frozen=True, slots=True)
class MirrorState:
    """What ``affiant gateway status`` shows.

    Args:
        size: leaves of the checkpoint that this mirror last saw in the store; None: not yet.
        code: of the last refusal; None after a round that held.
    """

    url: str
    state: Literal["starting", "current", "failing", "stopped"]
    size: int | None = None
    code: str | None = None


@contextmanager
def mirrored(
    store: Path,
    log: Path,
    objects: Objects,
    *,
    newest: Callable[[], Note | None],
    bounds: MirrorBounds = MirrorBounds(),
) -> Iterator[None]:
    """Mirror the log for the length of the block.

    Args:
        store: the gateway's folder, which gets the mirror's state. log: the folder of its log.
        newest: the checkpoint that the gateway shows now; see :func:`shown_by`.
    """
    publisher = Publisher(FolderLog(log), AnchorSource(log / "anchors"), objects)
    mirror = _Mirror(store, publisher, MirrorState(objects.name, "starting"), newest, bounds)
    mirror.start()
    try:
        yield
    finally:
        mirror.stop()


def shown_by(store: Path) -> Callable[[], Note | None]:
    """The checkpoint that the gateway of this folder shows; None while it does not answer."""
    return lambda: _newest(store)


def read_state(store: Path) -> Mapping[str, Any] | None:
    """The mirror's state; None where the gateway was started without one."""
    try:
        with (store / _STATE).open("rb") as file:
            found = json.loads(file.read(_MAX_STATE))
        return asdict(MirrorState(**found))
    except (OSError, ValueError, TypeError):
        return None


def forget_state(store: Path) -> None:
    """Remove what an earlier gateway's mirror has said."""
    (store / _STATE).unlink(missing_ok=True)


class _Stopping(Exception):
    """Between two batches of a long round: the next gateway's mirror goes on there."""


class _Mirror(threading.Thread):
    """Rounds, until :meth:`stop` or a refusal that stays."""

    def __init__(
        self,
        store: Path,
        publisher: Publisher,
        state: MirrorState,
        newest: Callable[[], Note | None],
        bounds: MirrorBounds,
    ) -> None:
        super().__init__(name="log-objects", daemon=True)
        self._store, self._publisher, self._newest, self._bounds = store, publisher, newest, bounds
        self._ended = threading.Event()
        self._state = state
        self._listed = time.monotonic()

    def run(self) -> None:
        """Until the end."""
        self._show(self._state)
        last: Note | None = None
        pause, bounds = _pauses(self._bounds), self._bounds
        while not self._ended.is_set():
            note = self._newest()
            if note is None or note == last:
                self._ended.wait(bounds.look_s)
                continue
            try:
                self._round(note)
            except _Stopping:
                return
            except AffiantError as refusal:
                self._rejected(refusal)
                if refusal.retryable is False:
                    return
                self._ended.wait(next(pause))
            except Exception as error:  # noqa: BLE001 - a mistake of ours ends the copy, not the gateway
                self._say(f"has stopped: {type(error).__name__}")
                self._show(replace(self._state, state="stopped", code="mirror.fault"))
                return
            else:
                last, pause = note, _pauses(bounds)
                self._ended.wait(bounds.spacing_s)

    def stop(self) -> None:
        """End it; a request that hangs ends with the process."""
        self._ended.set()
        self.join(_STOP_S)

    def _round(self, note: Note) -> None:
        if time.monotonic() - self._listed > self._bounds.listing_s:
            self._publisher.forget()
            self._listed = time.monotonic()
        done = self._publisher.publish(note, progress=self._go_on)
        if self._state.state == "failing":
            self._say("goes on")
        self._show(replace(self._state, state="current", size=done.size, code=None))

    def _go_on(self, _done: int, _total: int) -> None:
        if self._ended.is_set():
            raise _Stopping

    def _rejected(self, refusal: AffiantError) -> None:
        state: Literal["failing", "stopped"] = "failing" if refusal.retryable is not False else "stopped"
        if refusal.code != self._state.code:
            self._say(f"{state}: {refusal} [{refusal.code}]")
        self._show(replace(self._state, state=state, code=refusal.code))

    def _say(self, what: str) -> None:
        sys.stderr.write(printable(f"affiant gateway: the log's copy in {self._state.url} {what}") + "\n")

    def _show(self, state: MirrorState) -> None:
        if state == self._state and (self._store / _STATE).exists():
            return
        self._state = state
        try:
            write_whole(self._store / _STATE, json.dumps(asdict(state)).encode("ascii"))
        except OSError as error:
            self._say(f"cannot say how it is: {error.strerror}")


def _pauses(bounds: MirrorBounds) -> Iterator[float]:
    """Seconds to wait after one failure, a second one, and so on."""
    pause = bounds.retry_s
    while True:
        yield pause
        pause = min(2 * pause, bounds.longest_retry_s)


def _newest(store: Path) -> Note | None:
    try:
        answer = request(
            store / OPERATOR_SOCKET, "GET", "/log/checkpoint", limit=MAX_NOTE_BYTES, timeout_s=_TIMEOUT_S
        )
        return parse_note(answer.body) if answer.status == 200 else None
    except (OSError, AffiantError):
        return None
