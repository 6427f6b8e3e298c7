"""Keeps the task label of a session in its folder, and shows it in each bundle that is gathered for its starter.

The file holds the disclosures alone. The digests are in what the session's quote binds, so a changed file discloses
nothing: only what the start record commits to is put behind it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.records.task_label import TaskLabel, shown_label
from affiant.errors import MalformedError

__all__ = ["keep_label", "kept_label", "with_label"]

_FILE: Final = "task.json"
_LIMIT: Final = 16 * 1024


def keep_label(folder: Path, label: TaskLabel) -> None:
    """Write the disclosures of ``label`` into a session's ``folder``, readable for this user alone; once.

    Raises:
        OSError: it cannot be written, or is there.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    with open(os.open(folder / _FILE, flags, 0o600), "wb") as file:
        file.write(canonical({"disclosures": list(label.disclosures)}))


def kept_label(folder: Path) -> tuple[str, ...]:
    """The disclosures in ``folder``; none where the session has no label.

    Raises:
        ``session.bundle``: it is no plain file of this form.
    """
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        with open(os.open(folder / _FILE, flags), "rb") as file:
            plain = stat.S_ISREG(os.fstat(file.fileno()).st_mode)
            data = file.read(_LIMIT + 1) if plain else b""
    except FileNotFoundError:
        return ()
    except OSError as error:
        raise MalformedError(
            "the session's task label cannot be read", found=error.strerror, code="session.bundle"
        ) from error
    if not plain:
        raise MalformedError("the session's task label is no plain file", code="session.bundle")
    match parse_object(data, limit=_LIMIT):
        case {"disclosures": list() as found} if all(isinstance(each, str) for each in found):
            return tuple(found)
    raise MalformedError("not a task label", expected="its disclosures", code="session.bundle")


def with_label(bundle: Bundle, disclosures: Sequence[str], *, session: str) -> Bundle:
    """``bundle`` with those ``disclosures`` behind the start record of ``session`` that it commits to."""
    if not disclosures:
        return bundle
    return replace(
        bundle, receipts=tuple(shown_label(text, disclosures, session=session) for text in bundle.receipts)
    )
