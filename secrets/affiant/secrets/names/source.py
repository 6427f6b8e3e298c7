"""Where a secret lives: a reference, parsed strictly, and the one thing that every source can do.

::

    local:GITHUB_TOKEN                 the local store, by name
    vault:kv/team/cloud#token          Vault KV v2: mount "kv", path "team/cloud", field "token"

>>> parse_reference("vault:kv/team/cloud#token")
VaultReference(mount='kv', path='team/cloud', field='token')
>>> parse_reference("vault:kv/../sys#x")
Traceback (most recent call last):
    ...
affiant.errors.MalformedError: not a reference to a secret; expected local:NAME or ...
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final, Protocol, TypeAlias

from affiant.errors import MalformedError
from affiant.secrets.names.errors import SecretNameInvalid
from affiant.secrets.names.ref import secret_name
from affiant.secrets.names.value import SecretValue

__all__ = [
    "LocalReference",
    "Reference",
    "ResolvedSecret",
    "SecretSource",
    "VaultReference",
    "is_path_segment",
    "parse_reference",
]

_SEGMENT: Final = re.compile(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}\Z")
_VAULT: Final = re.compile(r"vault:([^/#]+)/([^#]+)#([^#]+)\Z")
_MAX_SEGMENTS: Final = 16


@dataclass(frozen=True, slots=True)
class LocalReference:
    """``local:NAME``."""

    name: str

    def __str__(self) -> str:
        return f"local:{self.name}"


@dataclass(frozen=True, slots=True)
class VaultReference:
    """``vault:<mount>/<path>#<field>``."""

    mount: str
    path: str
    field: str

    def __str__(self) -> str:
        return f"vault:{self.mount}/{self.path}#{self.field}"


Reference: TypeAlias = LocalReference | VaultReference


@dataclass(frozen=True, slots=True)
class ResolvedSecret:
    """A value, and which version of it this is, in the source's own counting (receipts name it)."""

    value: SecretValue
    version: str


class SecretSource(Protocol):
    """Something that holds values. Called in the broker's process, from a thread: it may block."""

    def resolve(self, reference: Reference) -> ResolvedSecret:
        """The value that ``reference`` names.

        Raises:
            AffiantError: any refusal of this component; its text never holds a value.
        """
        ...


def parse_reference(text: str) -> Reference:
    """The reference that ``text`` spells.

    Raises:
        ``secret.reference``: another scheme, an empty, dotted or too long segment, a foreign character.
    """
    scheme, _, rest = text.partition(":")
    if scheme == "local":
        try:
            return LocalReference(secret_name(rest))
        except SecretNameInvalid as error:
            raise _invalid(text) from error
    match = _VAULT.match(text)
    if match is None:
        raise _invalid(text)
    mount, path, field = match.groups()
    segments = path.split("/")
    if len(segments) > _MAX_SEGMENTS or not all(map(is_path_segment, (mount, field, *segments))):
        raise _invalid(text)
    return VaultReference(mount, path, field)


def is_path_segment(text: str) -> bool:
    """Whether ``text`` may be between two slashes: letters, digits, ``_``, ``-``, and dots, not first."""
    return _SEGMENT.match(text) is not None


def _invalid(text: str) -> MalformedError:
    return MalformedError(
        "not a reference to a secret",
        expected="local:NAME or vault:<mount>/<path>#<field>, of letters, digits, '_', '-' and '.'",
        found=repr(text[:80]),
        code="secret.reference",
    )
