"""A checkpoint of the story's log with timestamp tokens, as a bundle carries it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from vectors.making import timestamps, tree
from vectors.making.documents import ORIGIN
from vectors.making.encoding import b64u, sha256_name
from vectors.making.keys import ed25519_key, seeded
from vectors.making.story import Story
from vectors.making.witnesses import witnessed_session

__all__ = ["Script", "stamped"]

Script = Callable[[Story], None]
Tokens = Callable[[str], Sequence[bytes]]


def _one(text: str) -> Sequence[bytes]:
    return [timestamps.response(timestamps.message(text))]


def stamped(
    *,
    fewer: int = 0,
    more: int = 0,
    tokens: Tokens = _one,
    path: Sequence[bytes] | None = None,
    root: bytes | None = None,
    origin: str = ORIGIN,
    key: str = "log",
    kept: bool = True,
    script: Script = witnessed_session,
) -> Script:
    """The usual session, and an anchor over its tree.

    Args:
        fewer, more: leaves that the anchored tree has beside those of the proofs.
        tokens: the text of the checkpoint -> the responses.
        path: instead of the true proof of consistency.
        root: instead of the true root.
        origin, key: of the log that signed it.
        kept: whether the checkpoint is in the bundle.
    """

    def told(story: Story) -> None:
        script(story)
        hashes = story.leaves()
        size = len(hashes) - fewer + more
        grown = [*hashes, *(seeded(f"a later leaf {n}", 32) for n in range(more))]
        over = tree.root(grown[:size]) if root is None else root
        text = tree.checkpoint(origin, size, over)
        note = tree.note(text, origin, ed25519_key(key)).encode()
        smaller, larger = sorted((size, len(hashes)))
        proof = tree.consistency(grown[:larger], smaller) if path is None else path
        if kept:
            story.checkpoints.append(note)
        story.stamps.append(
            {
                "checkpoint": sha256_name(note),
                "consistency": [b64u(each) for each in proof],
                "tokens": [b64u(each) for each in tokens(text)],
            }
        )

    return told
