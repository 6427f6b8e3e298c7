"""Implements ``affiant witness``. It reads files, the clock and random bytes, serves, and chooses exit codes."""

from __future__ import annotations

import json
import logging
import os
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.options import FILE
from affiant.command_line import UsageGroup, print_json, printable
from affiant.document_output import DocumentCommand, Output

if TYPE_CHECKING:
    from affiant.attestation.log.witness.config import WitnessConfig

__all__ = ["witness"]

_LISTEN: Final = "127.0.0.1:8460"
_key_option = click.option(
    "--key",
    "key_path",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="The witness's key file, 0600.",
)
_state_option = click.option(
    "--state",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Its database. Default: the key file's name, with .sqlite after it.",
)


@click.group(cls=UsageGroup)
def witness() -> None:
    """Cosign checkpoints of transparency logs: only trees that extend what this witness has seen.

    Run it where the operator of the log has no access.

    \b
    Examples:
      affiant witness init --name witness.example/w1 --key witness.key
      affiant witness serve --key witness.key --log "$LOG_VKEY" --listen 127.0.0.1:8460
      affiant witness status --key witness.key
    """


@witness.command()
@click.option("--name", required=True, help="The witness's name, a host and path without https://.")
@_key_option
@_state_option
@click.option(
    "--only",
    type=click.Choice(["ed25519", "mldsa44"]),
    help="One key instead of both, Ed25519 and ML-DSA-44.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of text.")
def init(*, name: str, key_path: Path, state: Path | None, only: str | None, as_json: bool) -> None:
    """Make a witness: its key file and its database, which belong to each other for ever.

    Neither is ever overwritten. A witness that loses its database, or gets an older copy of it back, must be retired:
    `serve` refuses a key whose database is missing.

    Exit codes: 0 made, its verifier keys are printed; 1 refused, 2 usage.

    \b
    Example:
      affiant witness init --name witness.example/w1 --key /var/lib/witness/w1.key
    """
    from affiant.attestation.log.witness.create import make_witness  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.keys import KINDS, make_keys  # noqa: PLC0415 - help must stay cheap

    keys = make_keys(name, KINDS if only is None else (only,), os.urandom)
    make_witness(keys, key_path, _database(key_path, state))
    vkeys = [each.vkey() for each in keys.verifiers()]
    if as_json:
        print_json({"typ": "affiant-witness/1", "name": keys.name, "id": keys.identity, "vkeys": vkeys})
    else:
        click.echo("\n".join(vkeys))


@witness.command()
@_key_option
@_state_option
@click.option("--log", "vkeys", multiple=True, metavar="VKEY", help="Verifier key of a log to witness.")
@click.option("--config", type=FILE, help="Or a YAML file with `logs`, and perhaps `listen`.")
@click.option("--listen", help=f"Address and port; port 0: any.  [default: {_LISTEN}]")
@click.option(
    "--listen-fd", type=click.IntRange(min=3), help="Or a descriptor of a Unix socket that listens already."
)
@click.option("--tls-cert", type=FILE, help="PEM certificate chain; with --tls-key.")
@click.option("--tls-key", type=FILE, help="PEM private key of the certificate.")
@click.option(
    "--ready-fd", type=click.IntRange(min=3), help="Descriptor that gets one line of JSON when serving."
)
def serve(
    *,
    key_path: Path,
    state: Path | None,
    vkeys: tuple[str, ...],
    config: Path | None,
    listen: str | None,
    listen_fd: int | None,
    tls_cert: Path | None,
    tls_key: Path | None,
    ready_fd: int | None,
) -> None:
    """Serve until SIGTERM or SIGINT: POST add-checkpoint, GET <SHA-256 of origin>/checkpoint (C2SP tlog-witness).

    Two checkpoints that contradict each other are kept in evidence/ beside the database, and named on standard error.

    Exit codes: 0 stopped in order, 1 refused, 2 usage.

    \b
    Examples:
      affiant witness serve --key witness.key --log "$LOG_VKEY"
      affiant witness serve --key witness.key --config witness.yaml --tls-cert cert.pem --tls-key key.pem
    """
    from affiant.attestation.log.witness.config import parse_listen  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.log.witness.evidence import EvidenceFolder  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.keys import read_key_file  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.server import ServerSettings, serve_witness  # noqa: PLC0415 - an extra
    from affiant.attestation.log.witness.state import open_state  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.witness import Witness  # noqa: PLC0415 - as above

    settings = _config(vkeys, config)
    if listen_fd is not None and (listen or tls_cert or tls_key):
        raise click.UsageError("--listen-fd excludes --listen and a certificate")
    host, port = parse_listen(listen or settings.listen or _LISTEN)
    logging.basicConfig(format="affiant witness: %(message)s", level=logging.WARNING)
    keys, database = read_key_file(key_path), _database(key_path, state)
    with open_state(database, keys.identity) as opened:
        serve_witness(
            Witness(keys, settings.logs, opened, EvidenceFolder(database.parent / "evidence")),
            ServerSettings(host, port, tls_cert, tls_key, descriptor=listen_fd),
            clock=lambda: int(time.time()),
            announce=lambda url: _announce(url, keys.name, ready_fd),
        )


@witness.command(cls=DocumentCommand)
@_key_option
@_state_option
def status(*, key_path: Path, state: Path | None) -> Output:
    """Print the witness's verifier keys, and the latest tree of each log that it has cosigned.

    Exit codes: 0 done, 1 refused, 2 usage.

    \b
    Example:
      affiant witness status --key witness.key --json
    """
    from affiant.attestation.log.witness.evidence import EvidenceFolder  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.keys import read_key_file  # noqa: PLC0415 - as above
    from affiant.attestation.log.witness.state import open_state  # noqa: PLC0415 - as above
    from affiant.attestation.tlog.note import to_base64  # noqa: PLC0415 - as above

    keys, database = read_key_file(key_path), _database(key_path, state)
    with open_state(database, keys.identity) as opened:
        latest = opened.all()
    certain, unproven = EvidenceFolder(database.parent / "evidence").counts()
    return Output(
        {
            "typ": "affiant-witness-status/1",
            "name": keys.name,
            "id": keys.identity,
            "vkeys": [each.vkey() for each in keys.verifiers()],
            "evidence": {"certain": certain, "unproven": unproven},
            "logs": [
                {"origin": each.origin, "size": each.size, "root": to_base64(each.root), "time": each.seconds}
                for each in latest
            ],
        }
    )


def _database(key_path: Path, state: Path | None) -> Path:
    return state or key_path.with_name(key_path.name + ".sqlite")


def _config(vkeys: tuple[str, ...], config: Path | None) -> WitnessConfig:
    from affiant.attestation.log.witness.config import (  # noqa: PLC0415 - help must stay cheap
        MAX_CONFIG_BYTES,
        WitnessConfig,
        logs_of,
        parse_config,
    )

    if bool(vkeys) == (config is not None):
        raise click.UsageError("name the logs: --log VKEY, or --config FILE; not both")
    if config is None:
        return WitnessConfig(logs_of(vkeys), None)
    with config.open("rb") as opened:
        return parse_config(opened.read(MAX_CONFIG_BYTES + 1), source=config.name)


def _announce(url: str, name: str, ready_fd: int | None) -> None:
    if ready_fd is None:
        sys.stderr.write(printable(f"affiant witness {name} on {url}\n"))
        return
    line = json.dumps({"url": url, "pid": os.getpid()})
    with suppress(BrokenPipeError), open(ready_fd, "wb") as file:  # the starter may have ended
        file.write(line.encode("ascii") + b"\n")
