"""Implements ``affiant platform``: it serves the SIMULATED TDX platform, writes its trust file, and shows its state."""

from __future__ import annotations

import importlib
import json
import os
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

import click

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import parse_strict
from affiant.attestation.encoding.keys import public_key_of
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.simulated.served.confinement import PLATFORM_USER
from affiant.attestation.simulated.served.reference import simulated_reference
from affiant.attestation.simulated.served.serve_command import ServeSettings, serve_platform
from affiant.attestation.simulated.served.socket_path import platform_socket
from affiant.command_line import Group, print_json
from affiant.folders import default_home

__all__ = ["platform"]


_home = click.option(
    "--home",
    type=click.Path(file_okay=False, path_type=Path),
    envvar="AFFIANT_HOME",
    default=default_home,
    show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
    help="Folder that holds platform/.",
)


@click.group(cls=Group)
def platform() -> None:
    """The SIMULATED TDX platform, for machines without TDX.

    It makes structurally real TDX quotes under a throw-away root key. Every verifier prints SIMULATED for them
    and exits with 40; no option changes that.
    """


def _of_a_source_tree(name: str, summary: str) -> click.Command:
    """The command ``name`` of the fault scenarios, which are test data and no part of a wheel."""
    try:
        command = getattr(importlib.import_module("fault_scenarios.cli.commands"), name)
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] != "fault_scenarios":
            raise
        return _NotInstalled(name, short_help=summary, help=summary, add_help_option=True)
    if not isinstance(command, click.Command):  # pragma: no cover - a mistake in the calls below
        raise TypeError(f"{name} is no command")
    return command


class _NotInstalled(click.Command):
    """A command of the source tree, where only the wheel is installed."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        ctx.args = args if {"-h", "--help"}.isdisjoint(args) else super().parse_args(ctx, args)
        return []

    def invoke(self, ctx: click.Context) -> None:
        raise click.UsageError(
            f"'affiant platform {self.name}' needs the fault scenarios, which are in the source tree and not in the "
            "wheel. Install affiant from a checkout: make setup",
            ctx=ctx,
        )


platform.add_command(
    _of_a_source_tree("evidence", "Write SIMULATED evidence with one thing wrong (source tree only).")
)
platform.add_command(
    _of_a_source_tree("scenarios", "List the scenarios of that evidence (source tree only).")
)


@platform.command()
@_home
@click.option(
    "--user",
    type=click.IntRange(min=1),
    help=f"User id to serve as, when started as root. Default: {PLATFORM_USER}.",
)
@click.option(
    "--ready-fd",
    type=click.IntRange(min=3),
    help='Descriptor that gets one line {"socket":...} when serving.',
)
@click.option(
    "--dangerous-revoke-pck",
    is_flag=True,
    help="Publish this platform's own PCK certificate as revoked: every quote of it is then refused.",
)
@click.option(
    "--dangerous-revoke-session-pck",
    is_flag=True,
    help="Run session TDs on a second machine whose PCK certificate is published as revoked.",
)
def serve(
    *,
    home: Path,
    user: int | None,
    ready_fd: int | None,
    dangerous_revoke_pck: bool,
    dangerous_revoke_session_pck: bool,
) -> None:
    """Serve TDs on platform/platform.sock until SIGTERM or SIGINT.

    \b
    Examples:
      affiant platform serve
      affiant platform serve --home ./state
      affiant platform serve --dangerous-revoke-pck     # every quote is then rejected
    """

    def announce(path: Path) -> None:
        click.echo(f"SIMULATED TDX platform on {path}", err=True)
        if ready_fd is not None:
            with suppress(BrokenPipeError), open(ready_fd, "wb") as ready:  # the starter may have ended
                ready.write(json.dumps({"socket": str(path)}).encode("ascii") + b"\n")

    settings = ServeSettings(
        home=home.absolute(),
        user=user or (PLATFORM_USER if os.geteuid() == 0 else None),
        dangerous_revoke_pck=dangerous_revoke_pck,
        dangerous_revoke_session_pck=dangerous_revoke_session_pck,
    )
    serve_platform(settings, clock=_now, random_bytes=os.urandom, announce=announce)


@platform.command()
@_home
@click.option(
    "--gateway-config",
    "gateway_configs",
    multiple=True,
    metavar="SHA256",
    help="Accept this gateway configuration too (`affiant gateway config` prints its name).",
)
@click.option(
    "--profile-digest",
    "profiles",
    multiple=True,
    metavar="SHA384",
    help="Accept this profile, and from then on no other (`affiant policy digest` prints it).",
)
@click.option(
    "--profile-signers",
    "signers",
    type=click.File("rb"),
    metavar="FILE",
    help="Accept profiles that one of these has signed: a file as `affiant policy verify --signers` reads it.",
)
@click.option(
    "--witnesses",
    type=click.File("rb"),
    metavar="FILE",
    help="Ask for these witnesses' cosignatures, not the gateway's own: a C2SP tlog-policy file.",
)
@click.option(
    "--erasure-authority",
    "authorities",
    type=click.File("rb"),
    multiple=True,
    metavar="FILE",
    help="Accept erasures and holds that this authority ordered: its public key (JWK), from `affiant erase keygen`.",
)
def trust(
    home: Path,
    *,
    gateway_configs: tuple[str, ...],
    profiles: tuple[str, ...],
    signers: BinaryIO | None,
    witnesses: BinaryIO | None,
    authorities: tuple[BinaryIO, ...],
) -> None:
    """Print a trust file that accepts this SIMULATED platform and this build.

    Works before any session exists, and whether or not the platform is being served. The values come from the
    release manifest and from the root certificate, never from a quote. Without --witnesses it asks for the witness that
    the gateway of this folder starts for itself; that one is made here if need be.

    \b
    Example:
      affiant platform trust > trust.json
      affiant platform trust --gateway-config sha256:... --profile-digest sha384:... > trust.json
      affiant platform trust --gateway-config sha256:... --profile-signers signers.json > trust.json
      affiant platform trust --witnesses witnesses.policy > trust.json
      affiant platform trust --erasure-authority officer.jwk --gateway-config sha256:... > trust.json
    """
    from affiant.attestation.log.witness.embedded import own_witness  # noqa: PLC0415
    from affiant.attestation.signatures.profiles.accepted_signers import (  # noqa: PLC0415 - serve does not need it
        MAX_SIGNERS_FILE,
        parse_signers_file,
    )
    from affiant.attestation.tlog.quorum import MAX_POLICY_BYTES  # noqa: PLC0415
    from affiant.attestation.verdict.trust_file import (  # noqa: PLC0415
        parse_trust_file,
        simulated_trust_file,
    )

    now, home = _now(), home.absolute()
    _, reference = simulated_reference(home, now=now, random_bytes=os.urandom)
    policy = (
        None if witnesses is None else witnesses.read(MAX_POLICY_BYTES + 1).decode("utf-8", "surrogateescape")
    )
    made = simulated_trust_file(
        reference,
        now,
        gateway_configs=gateway_configs,
        profiles=profiles,
        profile_signers=() if signers is None else parse_signers_file(signers.read(MAX_SIGNERS_FILE + 1)),
        witnesses=policy,
        own_witness=own_witness(home, random_bytes=os.urandom).policy,
        erasure_authorities=[
            public_key_of(parse_strict(file.read(4097), limit=4096)) for file in authorities
        ],
    )
    parse_trust_file(made)
    click.echo(made.decode("utf-8"), nl=False)


@platform.command()
@_home
def status(home: Path) -> None:
    """Print where the platform answers, its root key and its TDs, as JSON.

    \b
    Example:
      affiant platform status --home ./state
    """
    path = platform_socket(home.absolute())
    client = PlatformClient(path)
    print_json(
        {
            "simulated": True,
            "socket": str(path),
            "root": sha256_name(client.root()),
            **client.status(),
        }
    )


def _now() -> datetime:
    return datetime.now(UTC)
