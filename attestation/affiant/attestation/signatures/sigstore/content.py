"""Recognises the kind of a file and runs its own reader: before it is signed, and again before it is used.

A trust file is never published. It says whom its owner trusts, roots and gateway keys included; one that arrived
from somebody else would let the sender say it.
"""

from __future__ import annotations

from typing import Final, assert_never

from affiant.attestation.encoding.canonical import JSONError, canonical, parse_object
from affiant.attestation.signatures.sigstore.statement import MAX_CONTENT, FileKind, SignedFile
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tdx.policy.policy_file import parse_appraisal_policy
from affiant.errors import NotAllowedError

__all__ = ["file_to_sign", "require_readable"]

_TRUST_FILE: Final = "affiant-trust/1"


def file_to_sign(name: str, content: bytes) -> SignedFile:
    """``content`` as a file that may be signed, under the file name ``name``.

    Raises:
        ``published.kind``: a trust file.
        SettingsInvalid: no plain file name, or too large.
        MalformedError: as the reader of its kind refuses; what nobody could use is not published.
    """
    file = SignedFile(name, _kind_of(content), content)
    require_readable(file)
    return file


def require_readable(file: SignedFile) -> None:
    """Refuse a file that the reader of its kind refuses, or that is of another kind than it is said to be.

    Raises:
        MalformedError: as that reader refuses.
    """
    match file.kind:
        case FileKind.APPRAISAL_POLICY:
            parse_appraisal_policy(file.content, source=file.name)
        case FileKind.REFERENCE_VALUES:
            parse_reference_values(canonical(parse_object(file.content, strict_form=False)))
        case _:
            assert_never(file.kind)


def _kind_of(content: bytes) -> FileKind:
    """By the file's own ``typ``; what is no JSON object is taken for a policy, whose reader then says what is wrong."""
    try:
        typ = parse_object(content, limit=MAX_CONTENT, strict_form=False).get("typ")
    except JSONError:
        return FileKind.APPRAISAL_POLICY
    if typ == _TRUST_FILE:
        raise NotAllowedError(
            "a trust file is not for publishing: it says whom its owner trusts",
            expected=" or ".join(FileKind),
            found=_TRUST_FILE,
            hint="Publish the reference values that it holds.",
            code="published.kind",
        )
    return FileKind.REFERENCE_VALUES if typ == FileKind.REFERENCE_VALUES else FileKind.APPRAISAL_POLICY
