"""Witnesses whose key is ML-DSA-44, beside two of Ed25519: their policy, their lines, and a boot that they saw."""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Mapping

from vectors.making import tree
from vectors.making.documents import ORIGIN, START
from vectors.making.encoding import link
from vectors.making.faults import Fault, put
from vectors.making.keys import ed25519_key, seeded
from vectors.making.mldsa44 import mldsa44_key, sign_mldsa44
from vectors.making.scripts import boot
from vectors.making.story import Story
from vectors.making.witnesses import line, witness_lines

__all__ = ["MLDSA", "cosigned", "message", "mixed_policy", "mldsa_line", "seen_boot", "stated", "true_line"]

ALGORITHM = 6
"""Of a cosignature key (C2SP tlog-cosignature)."""
MLDSA: Mapping[str, str] = {
    "m": "witness.invalid/m",
    "long": f"witness.invalid/{239 * 'w'}",
    "longer": f"witness.invalid/{120 * chr(0xE4)}w",
}
"""Name in the policy -> name of the key: that of ``long`` has 255 bytes, that of ``longer`` 257 in 137 characters."""


def mixed_policy() -> str:
    """Two of five: two of Ed25519, three of ML-DSA-44."""
    rows = [f"witness {name} {_vkey(name)}" for name in MLDSA]
    return "\n".join(
        [*witness_lines("a", "b"), *rows, f"group five 2 a b {' '.join(MLDSA)}", "quorum five", ""]
    )


def _seed(name: str) -> bytes:
    return seeded(f"ml-dsa-44 witness {name}", 32)


def _vkey(name: str) -> str:
    return tree.key_text(MLDSA[name], ALGORITHM, mldsa44_key(_seed(name)).public)


def message(
    text: str,
    seconds: int,
    *,
    name: str = MLDSA["m"],
    origin: str | None = None,
    start: int = 0,
    size: int | None = None,
    root: bytes | None = None,
) -> bytes:
    """``cosigned_message`` over a checkpoint's text, or with something else in it.

    Args:
        seconds: since 1970.
    """
    its_origin, its_size, its_root = tree.parts(text)
    witness, log = name.encode(), (its_origin if origin is None else origin).encode()
    return b"".join(
        (
            b"subtree/v1\n\0",
            bytes((len(witness) & 0xFF,)),
            witness,
            struct.pack(">Q", seconds),
            bytes((len(log),)),
            log,
            struct.pack(">QQ", start, its_size if size is None else size),
            its_root if root is None else root,
        )
    )


def mldsa_line(
    signed: bytes,
    after: int | None,
    *,
    name: str = "m",
    key: str | None = None,
    changed: Callable[[bytes], bytes] = bytes,
    context: bytes = b"",
    in_range: bool = True,
) -> str:
    """``name``'s line over any message.

    Args:
        after: the time that the line names, in seconds after the begin; None for the time zero.
        key: whose key signs; None: its own.
        changed: what the 2,420 bytes become.
    """
    signature = sign_mldsa44(_seed(key or name), signed, context=context, in_range=in_range)
    time = struct.pack(">Q", 0 if after is None else START + after)
    public = mldsa44_key(_seed(name)).public
    return tree.signature_line(MLDSA[name], ALGORITHM, public, time + changed(signature))


def true_line(text: str, name: str, after: int) -> str:
    """``name``'s true line over the checkpoint ``text``, of either kind of key."""
    if name not in MLDSA:
        return line(text, name, after)
    return mldsa_line(message(text, START + after, name=MLDSA[name]), after, name=name)


def cosigned(times: Mapping[str, int]) -> Callable[[str], str]:
    """A note with a true line of each of these witnesses, so many seconds after the begin."""

    def fault(note: str) -> str:
        text = note.partition("\n\n")[0] + "\n"
        return note + "".join(true_line(text, name, after) for name, after in times.items())

    return fault


def _empty(lines: Callable[[str], str]) -> bytes:
    """The log while it was empty."""
    text = tree.checkpoint(ORIGIN, 0, hashlib.sha256(b"").digest())
    return lines(tree.note(text, ORIGIN, ed25519_key("log"))).encode()


def stated(lines: Callable[[str], str]) -> Fault:
    """The keyset statement names the empty log with these lines."""
    return put(cp=link(_empty(lines)))


def seen_boot(lines: Callable[[str], str]) -> Callable[[Story], None]:
    """A gateway boots after witnesses saw its log, and says once that it is there: a tree of two leaves."""

    def script(story: Story) -> None:
        story.checkpoints.append(_empty(lines))
        boot(story)
        story.gateway_says("epoch", "epoch", {"inf": 0, "n": 1})

    return script
