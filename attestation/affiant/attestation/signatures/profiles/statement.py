"""Reads and writes what a profile's signer signs: one in-toto statement about one file of profiles.

in-toto Statement v1 (in-toto attestation framework, spec/v1/statement.md), with a predicate of our own::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "profiles", "digest": {"sha256": "<of the file's bytes>"}}],
     "predicateType": "tag:affiant.dev,2026:policy-signature/1",
     "predicate": {"semantics": "affiant.policy/1",
                   "digest": "sha384:<of the file: its profiles' names and digests>",
                   "floor": "sha384:<of the floor that is merged into each>" or null,
                   "profiles": ["sha384:<of a profile>", ...]}}

``profiles`` is sorted, without repetition and never empty: from it a gateway, which sees one profile's normal form and
never an agent's name, knows that this profile is one of the file. The names are bound by ``digest``. The subject is for
tools that know only in-toto: its digest is that of the file as it lies there.

Any layout is read, since a signer may write it anew; no other member and no second encoding of a value is. The name of
the file is not signed: renaming it changes nothing that it says.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.attestation.signatures.profiles.errors import ProfileSignatureMalformed

__all__ = ["MAX_STATEMENT", "PREDICATE_TYPE", "SignedProfiles", "parse_profile_statement"]

PREDICATE_TYPE: Final = "tag:affiant.dev,2026:policy-signature/1"
"""A name in the project's one naming authority (RFC 4151), as those of receipts and evidence; nothing to fetch."""
MAX_STATEMENT: Final = 96 << 10
"""Bytes: some 900 different profiles."""

_SUBJECT: Final = "profiles"
_SHA256: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_SHA384: Final = re.compile(r"sha384:[0-9a-f]{96}\Z")
_SEMANTICS: Final = re.compile(r"affiant\.policy/[1-9][0-9]{0,3}\Z")


@dataclass(frozen=True, slots=True)
class SignedProfiles:
    """One file of profiles, as its signer names it. That somebody signed it, this type does not say.

    Raises:
        ProfileSignatureMalformed: a value of another form, or no profile.
    """

    source: str
    """``sha256:`` name of the file's bytes."""
    digest: str
    """``sha384:`` digest of the file's meaning."""
    floor: str | None
    """``sha384:`` digest of the floor's meaning; None: the file names none."""
    profiles: tuple[str, ...]
    """``sha384:`` digests of the profiles, sorted, each once."""
    semantics: str
    """The version of the meaning."""

    def __post_init__(self) -> None:
        digests = (self.digest, *self.profiles, *(() if self.floor is None else (self.floor,)))
        if (
            _SHA256.match(self.source) is None
            or _SEMANTICS.match(self.semantics) is None
            or not all(_SHA384.match(each) for each in digests)
        ):
            raise ProfileSignatureMalformed("a digest or a version of another form", where="statement")
        if not self.profiles or list(self.profiles) != sorted(set(self.profiles)):
            raise ProfileSignatureMalformed(
                "not a list of profiles",
                expected="one or more, sorted, each once",
                where="predicate.profiles",
            )

    def to_bytes(self) -> bytes:
        """The statement, unsigned, in its canonical form (RFC 8785).

        Raises:
            ProfileSignatureMalformed: more than :data:`MAX_STATEMENT` bytes.
        """
        predicate = {
            "semantics": self.semantics,
            "digest": self.digest,
            "floor": self.floor,
            "profiles": list(self.profiles),
        }
        sha256 = self.source.removeprefix("sha256:")
        statement = InTotoStatement(_SUBJECT, sha256, PREDICATE_TYPE, predicate).to_bytes()
        if len(statement) > MAX_STATEMENT:
            raise ProfileSignatureMalformed(
                "too many profiles for one signature",
                expected=f"at most {MAX_STATEMENT} bytes of statement",
                found=f"{len(self.profiles)} different profiles",
            )
        return statement


def parse_profile_statement(statement: bytes) -> SignedProfiles:
    """The file that a statement is about.

    Raises:
        ProfileSignatureMalformed: another form, another predicate, too large.
    """
    said = parse_in_toto(
        statement, predicate_type=PREDICATE_TYPE, limit=MAX_STATEMENT, error=ProfileSignatureMalformed
    )
    match said.predicate:
        case {
            "semantics": str() as semantics,
            "digest": str() as digest,
            "floor": str() | None as floor,
            "profiles": [*profiles],
            **rest,
        } if not rest and said.subject == _SUBJECT and all(isinstance(each, str) for each in profiles):
            return SignedProfiles(
                f"sha256:{said.sha256}", digest, floor, tuple(map(str, profiles)), semantics
            )
    raise ProfileSignatureMalformed("not a statement about one profile file", where="statement")
