"""Asks a witness for its cosignatures on one checkpoint, within bounds of time and size.

1. The proof begins at the size that the log believes the witness has. If the witness has another (409), it is asked
   once more with that one.
2. A witness that has a larger tree than the log's is not asked again: the log has lost leaves.
3. Of the answer only lines of the keys that the log knows count, and each of those must hold over this checkpoint, at
   a time that is not ahead of the log's own clock. Lines of other keys are ignored.

A witness that is silent, slow, elsewhere or refuses is a named error; the log goes on to the next one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, NoReturn

from affiant.attestation.log.witness.checkpoint_request import encode_submission
from affiant.attestation.log.witness.protocol import SIZE_TYPE
from affiant.attestation.log_reading.bounded_http import HTTPResponse, bounded_request, check_prefix
from affiant.attestation.log_reading.errors import (
    LogUnavailable,
    LogUnreachable,
    RedirectRefused,
    ResourceTooLarge,
    ServerNotAuthentic,
)
from affiant.attestation.tlog.checkpoint import parse_checkpoint, parse_size
from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed
from affiant.attestation.tlog.note import Note, NoteSignature, parse_signature_lines
from affiant.attestation.tlog.note_keys import CosignerKey, MLDSACosignerKey, timestamp_of
from affiant.errors import NotAllowedError, NotAuthenticError, UnreachableError

if TYPE_CHECKING:
    import httpx

__all__ = ["Cosignatures", "ProofSource", "ask_witness"]

_MAX_ANSWER: Final = 64 * 1024
_AHEAD_S: Final = 300
"""Seconds that a witness's clock may be ahead of the log's."""

ProofSource = Callable[[int], Sequence[bytes]]
"""An older size -> the hashes that show that the checkpoint's tree begins with it."""
WitnessKey = CosignerKey | MLDSACosignerKey


@dataclass(frozen=True, slots=True)
class Cosignatures:
    """What a witness has given. Only :func:`ask_witness` makes one.

    Args:
        lines: verified, of keys that were given; one at least.
        seconds: since 1970, the earliest of them.
    """

    lines: tuple[NoteSignature, ...]
    seconds: int


async def ask_witness(
    url: str,
    note: Note,
    proof: ProofSource,
    *,
    keys: Sequence[WitnessKey],
    old: int,
    now: int,
    client: httpx.AsyncClient,
    answer_s: float = 10.0,
) -> Cosignatures:
    """The cosignatures of the witness at ``url`` over ``note``, a checkpoint that its log has signed.

    Args:
        url: its submission prefix.
        proof: asked for each size that is tried, at most twice.
        keys: the witness's; one at least.
        old: the size that it has, as far as is known; 0 if nothing is.
        now: seconds since 1970.
        client: of ``make_client``.
        answer_s: seconds for each of at most two questions.

    Raises:
        ``witness.unreachable``, ``witness.conflict``: ask again later.
        ``witness.refused``, ``witness.ahead``, ``witness.inconsistent``: as named; asking again does not help.
        ``witness.forged``: nothing in the answer counts.
    """
    check_prefix(url)
    size = parse_checkpoint(note.text).size
    for attempt in range(2):
        if old > size:
            raise NotAllowedError(
                "the witness has seen a larger tree",
                where=url,
                expected=f"at most {size} leaves",
                found=old,
                code="witness.ahead",
            )
        answer = await _post(url, encode_submission(old, proof(old), note), client, answer_s)
        if answer.status == 200:
            return _cosignatures(url, note, answer.body, keys, now)
        if answer.status != 409:
            _refused(url, answer)
        named = _size(url, answer)
        if attempt == 0 and named == old:
            break  # it names what it was asked with
        old = named
    raise UnreachableError(
        "the witness names another size each time",
        where=url,
        found=old,
        hint="Does another log use its origin?",
        code="witness.conflict",
    )


async def _post(url: str, body: bytes, client: httpx.AsyncClient, answer_s: float) -> HTTPResponse:
    try:
        return await bounded_request(
            client,
            "POST",
            f"{url.rstrip('/')}/add-checkpoint",
            limit=_MAX_ANSWER,
            answer_s=answer_s,
            content=body,
        )
    except (
        LogUnavailable,
        LogUnreachable,
        RedirectRefused,
        ResourceTooLarge,
        ServerNotAuthentic,
    ) as error:
        raise UnreachableError(
            error.message, where=url, expected=error.expected, found=error.found, code="witness.unreachable"
        ) from error


def _refused(url: str, answer: HTTPResponse) -> NoReturn:
    if answer.status == 422:
        raise NotAuthenticError(
            "the witness finds that the log does not grow from what it has seen",
            where=url,
            hint="The witness keeps both checkpoints; compare them before the log goes on.",
            code="witness.inconsistent",
        )
    if answer.status in (400, 403, 404):
        raise NotAllowedError(
            "the witness does not serve this log or its key",
            where=url,
            found=answer.status,
            code="witness.refused",
        )
    raise UnreachableError(
        "the witness has no answer now", where=url, found=answer.status, code="witness.unreachable"
    )


def _size(url: str, answer: HTTPResponse) -> int:
    try:
        text = answer.body.decode("ascii")
        if answer.media_type == SIZE_TYPE and text.endswith("\n"):
            return parse_size(text[:-1])
    except (UnicodeDecodeError, CheckpointMalformed):
        pass
    raise UnreachableError(
        "a conflict without a size", where=url, expected=SIZE_TYPE, code="witness.unreachable"
    )


def _cosignatures(url: str, note: Note, body: bytes, keys: Sequence[WitnessKey], now: int) -> Cosignatures:
    known = {key.key: key for key in keys}
    try:
        lines = parse_signature_lines(body.decode("utf-8"))
    except (UnicodeDecodeError, NoteMalformed) as error:
        raise NotAuthenticError(
            "an answer that is no cosignature", where=url, code="witness.forged"
        ) from error
    found: list[NoteSignature] = []
    times: list[int] = []
    for line in lines:
        if (key := known.get(line.key)) is None:
            continue
        when = timestamp_of(line.signature)
        if when is None or not key.holds(note.text, line.signature):
            raise NotAuthenticError(
                "a cosignature that does not hold", where=url, found=repr(key.name), code="witness.forged"
            )
        if when > now + _AHEAD_S:
            raise NotAuthenticError(
                "a cosignature from the future",
                where=url,
                expected=f"at most {now + _AHEAD_S}",
                found=when,
                code="witness.forged",
            )
        found.append(line)
        times.append(when)
    if not found:
        raise NotAuthenticError(
            "no cosignature of a known key", where=url, found=f"{len(lines)} of others", code="witness.forged"
        )
    return Cosignatures(tuple(found), min(times))
