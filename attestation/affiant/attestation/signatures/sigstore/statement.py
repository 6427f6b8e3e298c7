"""Reads and writes what the signer of a file signs: one in-toto statement that carries the whole file.

in-toto Statement v1 (in-toto attestation framework, spec/v1/statement.md), with a predicate of our own::

    {"_type": "https://in-toto.io/Statement/v1",
     "subject": [{"name": "appraisal.yaml", "digest": {"sha256": "<64 hex>"}}],
     "predicateType": "tag:affiant.dev,2026:publication/1",
     "predicate": {"kind": "affiant-appraisal/1", "content": "<base64url of the file>"}}

Any layout is read, since a signer may write it anew; no other member, no second subject and no second encoding of
a value is. Subject and content say the same file twice: the subject is what tools that know nothing of us compare
and index, the content is what makes one file enough.
"""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from affiant.attestation.encoding.binary_text import EncodingError, b64u, from_b64u, sha256_name
from affiant.attestation.signatures.in_toto import InTotoStatement, parse_in_toto
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid, StatementMalformed
from affiant.errors import NotAuthenticError

__all__ = [
    "MAX_CONTENT",
    "MAX_STATEMENT",
    "PREDICATE_TYPE",
    "FileKind",
    "SignedFile",
    "file_statement",
    "parse_file_statement",
]

MAX_CONTENT: Final = 1 << 20
"""Bytes of a signed file: what the reader of reference values takes at most."""
MAX_STATEMENT: Final = 3 << 19
"""Bytes of a statement: the content in base64url, and 128 KiB for everything else."""
PREDICATE_TYPE: Final = "tag:affiant.dev,2026:publication/1"
"""A name in the project's one naming authority (RFC 4151), as those of receipts and evidence; nothing to fetch."""

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}\Z")
"""A plain file name: it is printed, and proposed as the name of a file."""


class FileKind(StrEnum):
    """What a signed file is: its own ``typ``."""

    APPRAISAL_POLICY = "affiant-appraisal/1"
    REFERENCE_VALUES = "affiant-reference-values/1"


@dataclass(frozen=True, slots=True)
class SignedFile:
    """One file as it was published. Who published it, this type does not say.

    Raises:
        SettingsInvalid: no plain file name, no content, or more than :data:`MAX_CONTENT` bytes of it.
    """

    name: str
    kind: FileKind
    content: bytes

    def __post_init__(self) -> None:
        if _NAME.match(self.name) is None:
            raise SettingsInvalid(
                "not a name for a signed file",
                expected="1 to 128 letters, digits, '.', '_' and '-', no '.', '_' or '-' first",
                found=repr(self.name[:40]),
            )
        if not 0 < len(self.content) <= MAX_CONTENT:
            raise SettingsInvalid(
                "a signed file of this size",
                expected=f"1 to {MAX_CONTENT} bytes",
                found=f"{len(self.content)} bytes",
            )

    @property
    def digest(self) -> str:
        """``sha256:`` name of the content."""
        return sha256_name(self.content)


def file_statement(file: SignedFile) -> bytes:
    """The statement about ``file``, unsigned, in its canonical form (RFC 8785)."""
    sha256 = hashlib.sha256(file.content).hexdigest()
    predicate = {"kind": str(file.kind), "content": b64u(file.content)}
    return InTotoStatement(file.name, sha256, PREDICATE_TYPE, predicate).to_bytes()


def parse_file_statement(statement: bytes) -> SignedFile:
    """The file that a statement carries; ``statement`` is at most :data:`MAX_STATEMENT` bytes.

    Raises:
        StatementMalformed: another form, another predicate, more subjects than one, or a name that is none.
        ``published.content``: the content is not the one that the subject names.
    """
    said = parse_in_toto(
        statement, predicate_type=PREDICATE_TYPE, limit=MAX_STATEMENT, error=StatementMalformed
    )
    if set(said.predicate) != {"kind", "content"}:
        raise StatementMalformed(
            "members are missing or unknown", where="predicate", expected="content, kind"
        )
    content = _content(said.predicate["content"])
    if hashlib.sha256(content).hexdigest() != said.sha256:
        raise NotAuthenticError(
            "subject and content are two different files",
            expected=f"sha256:{said.sha256}",
            found=sha256_name(content),
            code="published.content",
        )
    try:
        return SignedFile(said.subject, _kind(said.predicate["kind"]), content)
    except SettingsInvalid as error:
        raise StatementMalformed(str(error), where="subject") from error


def _content(value: object) -> bytes:
    if not isinstance(value, str):
        raise StatementMalformed("not a text", where="predicate.content")
    try:
        return from_b64u(value)
    except EncodingError as error:
        raise StatementMalformed(str(error), where="predicate.content") from error


def _kind(value: object) -> FileKind:
    for kind in FileKind:
        if value == kind.value:
            return kind
    raise StatementMalformed(
        "a file of an unknown kind", where="predicate.kind", expected=" or ".join(FileKind)
    )
