"""Three witnesses, their policy file (C2SP tlog-policy), and a session whose log they cosign twice."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from vectors.making import tree
from vectors.making.documents import ORIGIN, START
from vectors.making.encoding import link
from vectors.making.faults import Fault, put
from vectors.making.keys import ed25519_key
from vectors.making.scripts import boot, execute, finish, inference, start
from vectors.making.story import Story

__all__ = [
    "EARLY",
    "LATE",
    "NAMES",
    "cosigned",
    "line",
    "self_policy",
    "stated",
    "witness_lines",
    "witness_policy",
    "witnessed_boot",
    "witnessed_session",
]

NAMES = ("a", "b", "c")
EARLY: Mapping[str, int] = {"a": 1, "b": 2, "c": 3}
"""Seconds after the begin at which each witness saw the tree of the boot record alone."""
LATE: Mapping[str, int] = {"a": 60, "b": 61, "c": 62}
"""And the whole tree."""


def witness_policy() -> str:
    """Two of three."""
    return "\n".join(["# two of three", *witness_lines(*NAMES), "group three 2 a b c", "quorum three", ""])


def witness_lines(*names: str) -> list[str]:
    """The lines of a policy for these."""
    return [f"witness {name} {tree.witness_vkey(f'witness.invalid/{name}', _key(name))}" for name in names]


def self_policy(*others: str) -> str:
    """The witness ``a`` is the operator's own; any one of it and ``others`` is a quorum."""
    rows = [
        f"witness {'self' if name == 'a' else name} {tree.witness_vkey(f'witness.invalid/{name}', _key(name))}"
        for name in ("a", *others)
    ]
    return "\n".join([*rows, f"group one any {' '.join(('self', *others))}", "quorum one", ""])


def _key(name: str) -> Ed25519PrivateKey:
    return ed25519_key(f"witness {name}")


def line(text: str, name: str, after: int, *, key: str | None = None) -> str:
    """``name``'s line over a checkpoint's text, so many seconds after the begin; ``key``: signed by that witness."""
    made = tree.cosignature(text, f"witness.invalid/{name}", _key(name), START + after)
    if key is None:
        return made
    return _with_the_signature_of(made, tree.cosignature(text, "witness.invalid/x", _key(key), START + after))


def _with_the_signature_of(true: str, other: str) -> str:
    """The name and key id of one line, the time and signature of another."""
    head, _, mine = true.rstrip("\n").rpartition(" ")
    theirs = other.rstrip("\n").rpartition(" ")[2]
    return f"{head} {tree.spliced(mine, theirs, 4)}\n"


def cosigned(times: Mapping[str, int]) -> Callable[[str], str]:
    """A note with a line of each of these witnesses."""

    def fault(note: str) -> str:
        text = note.partition("\n\n")[0] + "\n"
        return note + "".join(line(text, name, after) for name, after in times.items())

    return fault


def _before_the_boot(times: Mapping[str, int]) -> bytes:
    """The log while it was empty, cosigned at these times."""
    text = tree.checkpoint(ORIGIN, 0, hashlib.sha256(b"").digest())
    return cosigned(times)(tree.note(text, ORIGIN, ed25519_key("log"))).encode()


def stated(times: Mapping[str, int]) -> Fault:
    """The keyset statement names the empty log, as witnesses saw it so many seconds after the begin."""
    return put(cp=link(_before_the_boot(times)))


def witnessed_boot(times: Mapping[str, int]) -> Callable[[Story], None]:
    """The session whose log witnesses had seen before the gateway made its keyset."""

    def script(story: Story) -> None:
        story.checkpoints.append(_before_the_boot(times))
        witnessed_session(story)

    return script


def witnessed_session(story: Story) -> None:
    """The usual session, after an epoch record that names the cosigned checkpoint over the boot record."""
    boot(story)
    hashes = story.leaves()
    text = tree.checkpoint(ORIGIN, len(hashes), tree.root(hashes))
    note = story.faults.through("epoch-note", tree.note(text, ORIGIN, ed25519_key("log")))
    story.checkpoints.append(note.encode())
    members = {"cp": link(note.encode()), "cps": 1, "inf": 0, "n": 1}
    story.gateway_says("epoch", "epoch", members)
    told = start(story)
    execute(story, told)
    inference(story, told)
    finish(story, told)
