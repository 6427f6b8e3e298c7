"""Defines the options that name the signer of a signed file: all three together, or none."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, TypeVar

import click

__all__ = ["NamedSigner", "signer_options"]

_Command = TypeVar("_Command", bound=Callable[..., Any])
_NAMES: Final = ("--signer", "--signer-issuer", "--trusted-root")


@dataclass(frozen=True, slots=True)
class NamedSigner:
    """What the reader gave of the three."""

    signer: str | None = None
    signer_issuer: str | None = None
    trusted_root: Path | None = None

    @property
    def missing(self) -> tuple[str, ...]:
        """The options that were not given."""
        given = (self.signer, self.signer_issuer, self.trusted_root)
        return tuple(name for name, value in zip(_NAMES, given, strict=True) if value is None)

    @property
    def any_given(self) -> bool:
        """Whether one of them was."""
        return len(self.missing) < len(_NAMES)


def signer_options(*, required: bool) -> Callable[[_Command], _Command]:
    """The three options, for a command."""
    options = (
        click.option(
            "--signer",
            required=required,
            metavar="IDENTITY",
            help="Who must have signed the file: an e-mail address or a URI.",
        ),
        click.option(
            "--signer-issuer",
            required=required,
            metavar="URL",
            help="The OIDC issuer of that identity.",
        ),
        click.option(
            "--trusted-root",
            required=required,
            type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path),
            help="Your sigstore trusted_root.json: the authorities and logs that you trust.",
        ),
    )

    def decorate(command: _Command) -> _Command:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate
