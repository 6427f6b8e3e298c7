"""Collects checkpoints that others have of the log: from its witnesses and from files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from affiant.attestation.log.witness.witness import origin_hash
from affiant.attestation.log_reading.bounded_http import HTTPSettings
from affiant.attestation.log_reading.http_prefix import open_http_log
from affiant.attestation.tlog.errors import NoteMalformed
from affiant.attestation.tlog.note import MAX_NOTE_BYTES, Note, parse_note
from affiant.attestation.tlog.quorum import WitnessPolicy
from affiant.command_line import printable
from affiant.errors import AffiantError, ConfigurationError

__all__ = ["ask_witnesses", "read_notes"]


def ask_witnesses(
    policy: WitnessPolicy, origin: str, settings: HTTPSettings
) -> tuple[list[tuple[str, Note]], list[str]]:
    """The newest checkpoint of ``origin`` at each witness that has a URL, and what could not be asked."""
    found: list[tuple[str, Note]] = []
    missing: list[str] = []
    for witness in policy.witnesses.values():
        if witness.url is None:
            continue
        name = f"witness {printable(witness.name, limit=100)}"  # a policy's names are any octets
        url = f"{witness.url.rstrip('/')}/{origin_hash(origin)}/checkpoint"
        try:
            with open_http_log(witness.url, settings) as source:
                content = source.get(url, limit=MAX_NOTE_BYTES)
            if content is None:
                missing.append(f"comparison with {name}: it has none")
            else:
                found.append((name, parse_note(content)))
        except ConfigurationError:
            raise
        except AffiantError as error:
            missing.append(f"comparison with {name}: {error.message} [{error.code}]")
    return found, missing


def read_notes(paths: Sequence[Path]) -> list[tuple[str, Note]]:
    """The checkpoints in files.

    Raises:
        ``monitor.settings``: one is no signed note.
    """
    found = []
    for path in paths:
        try:
            with path.open("rb") as opened:
                found.append(
                    (f"file {printable(path.name, limit=100)}", parse_note(opened.read(MAX_NOTE_BYTES + 1)))
                )
        except (OSError, NoteMalformed) as error:
            raise ConfigurationError(
                "not a checkpoint", where=str(path), found=str(error)[:200], code="monitor.settings"
            ) from error
    return found
