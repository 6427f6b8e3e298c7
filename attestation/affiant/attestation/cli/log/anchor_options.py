"""Defines what the anchor commands share: trusted authorities, the folder of anchors, and the document of an anchor."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from affiant.attestation.cli.log.options import FILE, read_bounded
from affiant.printable import shown_time

if TYPE_CHECKING:
    from affiant.attestation.anchors.anchoring import Roots
    from affiant.attestation.signatures.timestamps.renewal import VerifiedStamp
    from affiant.attestation.verdict.trust_file import TrustFile

__all__ = [
    "anchors_folder",
    "out_option",
    "roots_from",
    "roots_options",
    "stamp_document",
    "trust_in",
]

_DIR: Final = click.Path(file_okay=False, path_type=Path)
_MAX_ROOT: Final = 64 << 10
_MAX_TRUST: Final = 16 << 20
_Command = TypeVar("_Command", bound=Callable[..., Any])

out_option = click.option(
    "--out", type=_DIR, help="Where anchors lie; default: `anchors` in the log's folder."
)


def roots_options(command: _Command) -> _Command:
    """``--tsa-root`` and ``--trust``: one of them, by :func:`roots_from`."""
    trust = click.option(
        "--trust",
        "trust_path",
        type=FILE,
        help="Or your trust file, for whom it names.",
    )
    root = click.option(
        "--tsa-root",
        "tsa_roots",
        type=FILE,
        multiple=True,
        help="The authority's root certificate, PEM or DER. Several: any of them.",
    )
    return root(trust(command))


def roots_from(files: tuple[Path, ...], trust_path: Path | None) -> Roots:
    """The roots of the command line, without an end, or those of a trust file.

    Raises:
        AnchorSettingsInvalid: neither or both, one that is none, or a trust file that names none.
    """
    from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.signatures.timestamps.renewal import Always  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.timestamps.roots import TSARoot, certificate_in  # noqa: PLC0415 - as above

    if bool(files) == (trust_path is not None):
        raise AnchorSettingsInvalid(
            "name whose tokens you believe", expected="--tsa-root or --trust; not both"
        )
    if trust_path is None:
        return [(Always(), TSARoot(certificate_in(read_bounded(path, _MAX_ROOT)))) for path in files]
    found = trust_in(trust_path).tsa_roots
    if found is None:
        raise AnchorSettingsInvalid("the trust file names no timestamp authority", where=trust_path.name)
    return found


def trust_in(path: Path) -> TrustFile:
    """A trust file.

    Raises:
        TrustFileMalformed: it is none.
    """
    from affiant.attestation.verdict.trust_file import parse_trust_file  # noqa: PLC0415 - as above

    return parse_trust_file(read_bounded(path, _MAX_TRUST))


def anchors_folder(log: str, out: Path | None) -> Path:
    """Where the anchors of ``log`` lie: ``--out``, or beside its tiles.

    Raises:
        AnchorSettingsInvalid: a log behind an address has no folder here.
    """
    from affiant.attestation.signatures.timestamps.errors import AnchorSettingsInvalid  # noqa: PLC0415 - as above

    if out is not None:
        return out
    if "://" in log:
        raise AnchorSettingsInvalid("where do the anchors of this log lie?", expected="--out DIR")
    return Path(log) / "anchors"


def stamp_document(size: int, stamp: VerifiedStamp) -> Mapping[str, object]:
    """One anchor; what an authority calls itself comes from its certificate."""
    return {
        "size": size,
        "kind": "tsr",
        "not_after": shown_time(stamp.not_after),
        "authority": stamp.authority,
        "policy": stamp.tokens[0].policy,
        "tokens": [f"{token.at:%Y-%m-%dT%H:%M:%SZ}" for token in stamp.tokens],
    }
