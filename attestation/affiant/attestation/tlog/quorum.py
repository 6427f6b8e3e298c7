"""Decides which witnesses make a checkpoint count: C2SP tlog-policy files.

::

    log <vkey> [<url>]
    witness <name> <vkey> [<url>]
    group <name> <k | any | all> <member>...
    quorum <name | none>

A checkpoint counts if one of the logs has signed it and the quorum has cosigned it. Names are the file's own; a line
refers to names above it alone; a member is in one group, so that nobody counts twice. ``quorum none`` is a policy
without witnesses: a verifier says so, and stays below the level that witnesses would give.

A witness that a policy names ``self`` is run by whoever runs the log. It finds faults; it does not make anything
independent of the operator, and whoever judges by a quorum is told whether that stands without it.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Final

from affiant.attestation.tlog.checkpoint import Checkpoint, parse_checkpoint
from affiant.attestation.tlog.errors import NoteMalformed, QuorumMalformed, QuorumMissed
from affiant.attestation.tlog.note import Note, verify_note
from affiant.attestation.tlog.note_keys import LogKey, VerifierKey, parse_vkey, timestamp_of

__all__ = [
    "MAX_POLICY_BYTES",
    "OWN_WITNESS_URL",
    "SELF",
    "Group",
    "Witness",
    "WitnessPolicy",
    "Witnessed",
    "parse_witness_policy",
    "verify_quorum",
]

MAX_POLICY_BYTES: Final = 1 << 20
SELF: Final = "self"
"""The name, in a policy, of a witness that is run by whoever runs the log."""
OWN_WITNESS_URL: Final = "http://affiant-witness.internal"
"""Where a gateway asks the witness that was started for it: a Unix socket that its launcher names, under this name."""
_MAX_LINES: Final = 1024
_ALLOWED: Final = re.compile(rb"[\t\n\x20-\x7e\x80-\xff]*\Z")
_NUMBER: Final = re.compile(r"[1-9][0-9]{0,3}\Z")
_NONE: Final = "none"


@dataclass(frozen=True, slots=True)
class Witness:
    """One witness: its name in the file, its key, and where it is asked, if the file says so."""

    name: str
    key: VerifierKey
    url: str | None


@dataclass(frozen=True, slots=True)
class Group:
    """At least ``threshold`` of ``members``, which are witnesses or groups by name."""

    name: str
    threshold: int
    members: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class WitnessPolicy:
    """A policy as read.

    Args:
        logs: key of a log -> its URL, or None.
        witnesses, groups: by name.
        quorum: the name that must be satisfied; None for ``quorum none``.
    """

    logs: Mapping[LogKey, str | None]
    witnesses: Mapping[str, Witness]
    groups: Mapping[str, Group]
    quorum: str | None

    def independent(self, cosigned: Collection[str]) -> bool:
        """Whether they are a quorum also without the operator's own witness."""
        return self.satisfied([name for name in cosigned if name != SELF])

    def satisfied(self, cosigned: Collection[str]) -> bool:
        """Whether the witnesses named in ``cosigned`` are a quorum."""
        counted = set(cosigned)
        for group in self.groups.values():  # in the file's order: members stand above
            if sum(member in counted for member in group.members) >= group.threshold:
                counted.add(group.name)
        return self.quorum is None or self.quorum in counted

    def not_before(self, times: Mapping[str, int]) -> int | None:
        """The latest of ``times`` (by witness) that a quorum does not stand before; None without one.

        With a quorum of k: the k-th largest. While fewer than k lie, an honest witness backs it.
        """
        return self._backed(times, sorted(set(times.values()), reverse=True), operator.ge)

    def not_after(self, times: Mapping[str, int]) -> int | None:
        """The earliest of ``times`` that a quorum does not stand after: the k-th smallest; else as above."""
        return self._backed(times, sorted(set(times.values())), operator.le)

    def _backed(
        self, times: Mapping[str, int], candidates: Iterable[int], side: Callable[[int, int], bool]
    ) -> int | None:
        if self.quorum is None:
            return None
        return next(
            (
                time
                for time in candidates
                if self.satisfied([name for name, each in times.items() if side(each, time)])
            ),
            None,
        )


@dataclass(frozen=True, slots=True)
class Witnessed:
    """A checkpoint under a policy. Only :func:`verify_quorum` makes one.

    Args:
        times: name of each witness that cosigned -> seconds since 1970, its own clock's.
    """

    checkpoint: Checkpoint
    note: Note
    times: Mapping[str, int]
    not_before: int | None
    """The latest time that a quorum does not stand before: when this was the tree, or later. None: no witnesses."""
    not_after: int | None
    """The earliest time that a quorum does not stand after: by then this was the tree."""
    independent: bool
    """Whether the quorum stands without the operator's own witness."""


def verify_quorum(note: Note, policy: WitnessPolicy, *, logs: Iterable[LogKey] | None = None) -> Witnessed:
    """``note`` is a checkpoint that one of the policy's logs has signed and its quorum has cosigned.

    Args:
        logs: the log's keys, where they are known from elsewhere; None: those of the policy.

    Raises:
        CheckpointMalformed: it is no checkpoint.
        NoteSignatureInvalid: no log of the policy has signed it, or a line of a known key does not hold.
        QuorumMissed: too few witnesses.
    """
    checkpoint = parse_checkpoint(note.text)
    known = policy.logs if logs is None else logs
    verify_note(note, [key for key in known if key.name == checkpoint.origin])
    by_key = {witness.key.key: witness for witness in policy.witnesses.values()}
    present = [each for each in note.signatures if each.key in by_key]
    if present:
        verify_note(note, [witness.key for witness in policy.witnesses.values()])
    times = {by_key[each.key].name: timestamp_of(each.signature) or 0 for each in present}
    if not policy.satisfied(times):
        raise QuorumMissed(
            "not cosigned by enough witnesses",
            expected=f"the quorum {policy.quorum!r}",
            found=", ".join(sorted(times)) or "no witness",
        )
    return Witnessed(
        checkpoint,
        note,
        MappingProxyType(times),
        not_before=policy.not_before(times),
        not_after=policy.not_after(times),
        independent=policy.independent(times),
    )


def parse_witness_policy(data: bytes) -> WitnessPolicy:
    """The policy in ``data``.

    Raises:
        QuorumMalformed: another form, with the line; a name twice or unknown, a key twice, no quorum.
    """
    if len(data) > MAX_POLICY_BYTES or _ALLOWED.match(data) is None:
        raise QuorumMalformed(
            "not a witness policy", expected="text without control characters, at most 1 MiB"
        )
    rows = data.decode("utf-8", "surrogateescape").split("\n")
    if len(rows) > _MAX_LINES:
        raise QuorumMalformed("too many lines", expected=f"at most {_MAX_LINES}", found=len(rows))
    reader = _Reader()
    for number, row in enumerate(rows, start=1):
        words = [word for word in re.split(r"[ \t]+", row) if word]
        if words and not words[0].startswith("#"):
            try:
                reader.line(words)
            except (QuorumMalformed, NoteMalformed) as error:
                raise QuorumMalformed(
                    error.message, where=f"line {number}", expected=error.expected
                ) from error
    return reader.policy()


class _Reader:
    """The lines so far."""

    def __init__(self) -> None:
        self._logs: dict[LogKey, str | None] = {}
        self._witnesses: dict[str, Witness] = {}
        self._groups: dict[str, Group] = {}
        self._members: set[str] = set()
        self._quorum: str | None = None

    def line(self, words: list[str]) -> None:
        match words:
            case ["log", vkey, *url] if len(url) <= 1:
                self._log(parse_vkey(vkey), url)
            case ["witness", name, vkey, *url] if len(url) <= 1:
                self._witness(name, parse_vkey(vkey), url)
            case ["group", name, threshold, *members] if members:
                self._group(name, threshold, members)
            case ["quorum", name]:
                if self._quorum is not None:
                    raise QuorumMalformed("a second quorum")
                if name != _NONE:
                    self._demand_known(name)
                self._quorum = name
            case _:
                raise QuorumMalformed(
                    "not a line of a witness policy", expected="log, witness, group or quorum"
                )

    def policy(self) -> WitnessPolicy:
        if self._quorum is None:
            raise QuorumMalformed("a policy without a quorum", expected="one `quorum` line")
        return WitnessPolicy(
            MappingProxyType(self._logs),
            MappingProxyType(self._witnesses),
            MappingProxyType(self._groups),
            None if self._quorum == _NONE else self._quorum,
        )

    def _log(self, key: VerifierKey, url: list[str]) -> None:
        if not isinstance(key, LogKey):
            raise QuorumMalformed("a log's key is of another kind", expected="Ed25519 (0x01)")
        if any(key.public_key == known.public_key for known in self._logs):
            raise QuorumMalformed("a log's key stands twice")
        self._logs[key] = url[0] if url else None

    def _witness(self, name: str, key: VerifierKey, url: list[str]) -> None:
        if isinstance(key, LogKey):
            raise QuorumMalformed(
                "a witness's key is of another kind", expected="a cosignature key (0x04, 0x06)"
            )
        if any(key.public_key == known.key.public_key for known in self._witnesses.values()):
            raise QuorumMalformed("a witness's key stands twice")
        self._demand_new(name)
        self._witnesses[name] = Witness(name, key, url[0] if url else None)

    def _group(self, name: str, threshold: str, members: list[str]) -> None:
        self._demand_new(name)
        for member in members:
            self._demand_known(member)
            if member in self._members:
                raise QuorumMalformed(f"{_shown(member)} is a member already")
            self._members.add(member)
        words = {"any": 1, "all": len(members)}
        if threshold not in words and _NUMBER.match(threshold) is None:
            raise QuorumMalformed("not a threshold", expected="a number, `any` or `all`")
        count = words.get(threshold) or int(threshold)
        if count > len(members):
            raise QuorumMalformed(
                "a threshold over the number of members", expected=f"at most {len(members)}"
            )
        self._groups[name] = Group(name, count, tuple(members))

    def _demand_new(self, name: str) -> None:
        if name == _NONE or name in self._witnesses or name in self._groups:
            raise QuorumMalformed(f"the name {_shown(name)} is taken")

    def _demand_known(self, name: str) -> None:
        if name not in self._witnesses and name not in self._groups:
            raise QuorumMalformed(f"no witness or group {_shown(name)} stands above")


def _shown(name: str) -> str:
    return ascii(name[:60])
