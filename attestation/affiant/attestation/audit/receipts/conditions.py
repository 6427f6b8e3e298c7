"""What is searched for, as one query with bound values. Pure.

Several values of one condition: any of them. Several conditions: all of them. Those about keys and evidence hold of
*one* signer that the record rests on: of a gateway, of a session, or (without ``of``) of either.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.attestation.audit.receipts.errors import SettingsInvalid
from affiant.attestation.schema.records import KINDS
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus

__all__ = ["Conditions", "Query", "query_of"]

_HEX96: Final = re.compile(r"[0-9a-f]{96}", re.ASCII)
_FORMS: Final[Mapping[str, tuple[re.Pattern[str], str]]] = {
    "mrseam": (_HEX96, "96 hexadecimal digits"),
    "mrtd": (_HEX96, "96 hexadecimal digits"),
    "fmspc": (re.compile(r"[0-9a-f]{12}", re.ASCII), "12 hexadecimal digits"),
    "ppid": (re.compile(r"[0-9a-f]{32}", re.ASCII), "32 hexadecimal digits"),
    "kid": (re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII), "43 characters of base64url"),
    "keyset": (re.compile(r"[A-Za-z0-9_-]{43}", re.ASCII), "43 characters of base64url"),
    "advisory": (re.compile(r"INTEL-[A-Z]{2}-[0-9]{5}", re.ASCII), "like INTEL-SA-00837"),
    "session": (re.compile(r"[A-Za-z0-9_-]{22}", re.ASCII), "22 characters of base64url"),
}
_LISTED: Final = {"tcb_status": [status.value for status in TCBStatus], "kind": list(KINDS)}
_CASELESS: Final = frozenset({"mrseam", "mrtd", "fmspc", "ppid"})
_PROFILE_DIGEST: Final = re.compile(r"sha384:[0-9a-f]{96}", re.ASCII)
_PARTY: Final = ("tcb_status", "mrseam", "mrtd", "fmspc", "ppid", "kid", "keyset")
_RECORD: Final = ("model", "session", "kind")


@dataclass(frozen=True, slots=True)
class Conditions:
    """What a record must be like.

    Args:
        values: column -> values, any of which it may have.
        of: ``gateway`` or ``session``: through whom; None: either.
        since, until: seconds since 1970; ``until`` is not inside.
    """

    values: Mapping[str, Sequence[str]] = field(default_factory=dict)
    of: str | None = None
    since: int | None = None
    until: int | None = None

    @property
    def asks_evidence(self) -> bool:
        """Whether a signer is asked about."""
        return any(self.values.get(name) for name in (*_PARTY, "advisory"))


@dataclass(frozen=True, slots=True)
class Query:
    """SQL after ``FROM receipts``, and what is bound in it; ``through_*``: whether the row hits through that signer."""

    hits: str
    where: str
    values: tuple[object, ...]


def query_of(conditions: Conditions) -> Query:
    """The query.

    Raises:
        SettingsInvalid: no condition, or a value that nothing could have.
    """
    chosen = {name: _checked(name, values) for name, values in conditions.values.items() if values}
    if not chosen and conditions.since is None and conditions.until is None:
        raise SettingsInvalid("nothing is searched for", expected="at least one condition")
    if conditions.of is not None and not conditions.asks_evidence:
        raise SettingsInvalid(
            "--of says through whom evidence counts", expected="a condition about evidence or keys"
        )
    hits, bound = _hits(chosen)
    parts: list[str] = []
    values: list[object] = [*bound]
    if conditions.asks_evidence:
        through = {"gateway": "gateway IN hit", "session": "session_party IN hit"}
        sides = [through[conditions.of]] if conditions.of else list(through.values())
        parts.append(f"({' OR '.join(sides)})")
    for name in _RECORD:
        if name in chosen:
            parts.append(_any_of(name, chosen[name]))
            values += chosen[name]
    if "profile" in chosen:
        parts.append(
            f"({_any_of('profile', chosen['profile'])} OR {_any_of('profile_id', chosen['profile'])})"
        )
        values += [*chosen["profile"], *chosen["profile"]]
    for bound_at, sign in ((conditions.since, ">="), (conditions.until, "<")):
        if bound_at is not None:
            parts.append(f"receipts.at {sign} ?")
            values.append(bound_at)
    return Query(hits, " AND ".join(parts), tuple(values))


def _hits(chosen: Mapping[str, Sequence[str]]) -> tuple[str, list[str]]:
    """The signers that hold all conditions about evidence and keys."""
    parts: list[str] = []
    values: list[str] = []
    for name in _PARTY:
        if name in chosen:
            parts.append(_any_of(name, chosen[name]))
            values += chosen[name]
    if "advisory" in chosen:
        marks = ", ".join("?" for _ in chosen["advisory"])
        parts.append(f"id IN (SELECT party FROM advisories WHERE advisory IN ({marks}))")  # noqa: S608 - marks are `?`
        values += chosen["advisory"]
    where = " AND ".join(parts) or "FALSE"
    return f"WITH hit AS MATERIALIZED (SELECT id FROM parties WHERE {where})", values  # noqa: S608 - no value is in it


def _any_of(column: str, values: Sequence[str]) -> str:
    """Column names are this module's own; values are bound."""
    return f"{column} IN ({', '.join('?' for _ in values)})"


def _checked(name: str, values: Sequence[str]) -> tuple[str, ...]:
    """Each value as the store encodes it; a value that nothing could have is an error, not an empty result."""
    found = tuple(value.lower() if name in _CASELESS else value for value in values)
    for value in found:
        form, expected = _FORMS.get(name, (None, ""))
        if form is not None and form.fullmatch(value) is None:
            raise SettingsInvalid(
                f"not a value of --{_option(name)}", expected=expected, found=repr(value[:60])
            )
        if name == "profile" and value.startswith("sha384:") and _PROFILE_DIGEST.fullmatch(value) is None:
            raise SettingsInvalid("not a profile's digest", expected="sha384: and 96 hexadecimal digits")
        if value not in _LISTED.get(name, (value,)):
            raise SettingsInvalid(
                f"no such {_option(name)}", expected=", ".join(_LISTED[name]), found=repr(value[:60])
            )
    return found


def _option(name: str) -> str:
    return {"tcb_status": "tcb-status", "kid": "key"}.get(name, name)
