"""Defines ``--trust``, and reads the trust file that it names."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from affiant.command_line import printable
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.verdict.trust_file import TrustFile

__all__ = ["read_trust_file", "trust_option"]

trust_option = click.option(
    "--trust",
    "trust_path",
    type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
    required=True,
    help="Your trust file: the keys, images and policies that you accept.",
)


def read_trust_file(path: Path) -> TrustFile:
    """The trust file at ``path``.

    Raises:
        click.UsageError: it is none.
    """
    from affiant.attestation.verdict.trust_file import parse_trust_file  # noqa: PLC0415 - help must stay cheap

    try:
        return parse_trust_file(path.read_bytes())
    except AffiantError as error:
        error.where = path.name if error.where is None else f"{path.name}: {error.where}"
        text = f"the trust file is rejected: {printable(str(error))} [{error.code}]"
        raise click.UsageError(text) from error
