"""The command line's entry: ``affiant COMMAND``. Each component brings its own commands.

Nothing is imported before it is asked for: ``affiant verify`` needs the base install alone and starts fast;
a command whose extra is not installed says which one to install.
"""

from __future__ import annotations

import importlib
import signal
from typing import Any, Final, NamedTuple

import click

from affiant.command_line import DISK_TROUBLE, Group
from affiant.lazy_names import loading

__all__ = ["cli", "main"]

_EXIT_INTERRUPTED: Final = 128 + signal.SIGINT


class _Entry(NamedTuple):
    place: str
    summary: str
    extra: str | None = None


COMMANDS: Final = {
    "run": _Entry("sandbox.cli.commands:run", "Run a command in an attested session.", extra="sandbox"),
    "session": _Entry(
        "sandbox.cli.session_commands:session", "List sessions; recover interrupted ones.", extra="sandbox"
    ),
    "runtime": _Entry(
        "sandbox.runtimes.runtime_commands:runtime",
        "Build the environments that agents run in.",
        extra="sandbox",
    ),
    "verify": _Entry("attestation.cli.bundle.verify_command:verify", "Check a receipt bundle, offline."),
    "verdict": _Entry(
        "attestation.cli.bundle.verdict_commands:verdict", "Check signed verdicts: who found what."
    ),
    "bundle": _Entry(
        "gateway.bundles.bundle_commands:bundle", "Export a period of a gateway; inspect a bundle."
    ),
    "reconcile": _Entry(
        "attestation.cli.bundle.reconcile_commands:reconcile",
        "Match a proxy's log, a bill or spans with receipts.",
    ),
    "receipts": _Entry(
        "attestation.cli.bundle.receipts_commands:receipts",
        "Find receipts that depend on something since broken.",
    ),
    "quote": _Entry(
        "attestation.cli.quote.commands:quote", "Inspect, verify and explain TDX quotes, offline."
    ),
    "collateral": _Entry(
        "attestation.cli.collateral.commands:collateral",
        "Fetch, store and check the collateral of a platform.",
    ),
    "log": _Entry("attestation.cli.log.commands:log", "Read, check and watch a transparency log."),
    "witness": _Entry(
        "attestation.cli.log.witness_commands:witness",
        "Cosign the checkpoints of transparency logs.",
        extra="witness",
    ),
    "erase": _Entry("gateway.erasure.erase_commands:erase", "Erase records by an authority's order."),
    "hold": _Entry("attestation.cli.platform.hold_commands:hold", "Hold records against erasure, or end it."),
    "approvals": _Entry(
        "gateway.cli.approvals_commands:approvals", "Decide which waiting agent actions go ahead."
    ),
    "policy": _Entry("policy.commands:policy", "Read, check and digest permission profiles."),
    "secret": _Entry(
        "secrets.store.commands:secret", "Keep secrets in the encrypted local store.", extra="secrets"
    ),
    "gateway": _Entry("gateway.cli.commands:gateway", "Serve the inference gateway.", extra="gateway"),
    "platform": _Entry("attestation.cli.platform.commands:platform", "Serve the SIMULATED TDX platform."),
}
"""Command name -> module below ``affiant`` and attribute; the summary is here so that help imports nothing."""


class _LazyGroup(Group):
    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002
        entry = COMMANDS.get(cmd_name)
        if entry is None:
            return None
        try:
            module, _, attribute = entry.place.partition(":")
            with loading():
                command = getattr(importlib.import_module(f"affiant.{module}"), attribute)
        except ModuleNotFoundError as error:
            if error.name is not None and error.name.partition(".")[0] == "affiant" and entry.extra is None:
                raise
            raise click.ClickException(
                f"'affiant {cmd_name}' needs the package {error.name!r}, which is not installed. "
                f"Install it with: pip install 'affiant[{entry.extra}]'"
            ) from error
        if not isinstance(command, click.Command):  # pragma: no cover - a mistake in the table above
            raise TypeError(f"{entry.place} is no command")
        return command

    def invoke(self, ctx: click.Context) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:  # while something was loaded, as later: 128 + the signal's number
            raise click.exceptions.Exit(_EXIT_INTERRUPTED) from error
        except OSError as error:
            if error.errno not in DISK_TROUBLE:
                raise
            place = error.filename or "its output"
            raise click.ClickException(f"{place} cannot be written: {error.strerror}") from error

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        with formatter.section("Commands"):
            formatter.write_dl([(name, entry.summary) for name, entry in COMMANDS.items()])


@click.group(cls=_LazyGroup, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="affiant", message="affiant %(version)s")
def cli() -> None:
    """Attested sessions for AI agents, and receipts that others can verify.

    \b
    Examples:
      affiant run --profile profiles.yaml --agent code_implementer --input . -- python3 agent.py
      affiant verify session.affiant.json --trust trust.json
      affiant policy lint profiles.yaml

    \b
    Shell completion (bash; also zsh, fish):
      eval "$(_AFFIANT_COMPLETE=bash_source affiant)"
    """


def main() -> None:
    """The console script."""
    cli(prog_name="affiant")


if __name__ == "__main__":
    main()
