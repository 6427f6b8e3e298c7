"""Implements ``affiant quote take`` and ``affiant quote sources``. It prints, writes one file, and chooses exit codes.

What the commands need is imported when they run, so that help costs nothing and a verifier loads no way out.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.encoding.binary_text import from_hex, sha256_name
from affiant.command_line import print_json, printable, refusals
from affiant.errors import AffiantError
from affiant.folders import default_home

if TYPE_CHECKING:
    from affiant.attestation.quote.providers.collection import CollectedEvidence
    from affiant.attestation.quote.providers.machine_paths import Places
    from affiant.attestation.quote.providers.probing import ProviderState

__all__ = ["sources", "take"]

_SOURCES: Final = ("auto", "configfs-tsm", "dstack", "azure-vtpm", "simulated")
_NAME: Final = 14


def _exactly(size: int) -> Callable[[click.Context, click.Parameter, str | None], bytes | None]:
    """A value of so many bytes: never padded, never cut."""

    def convert(_ctx: click.Context, param: click.Parameter, value: str | None) -> bytes | None:
        if value is None:
            return None
        try:
            return from_hex(value.lower(), size=size)
        except AffiantError as error:
            raise click.BadParameter(f"{error}", param=param) from error

    return convert


def _with_places(command: Callable[..., None]) -> Callable[..., None]:
    """Options that name the machine's places; all but --home are for tests and unusual mounts."""
    path: Any = click.Path(path_type=Path)
    for option in (
        click.option("--imds", metavar="URL", hidden=True),
        click.option("--tpm-device", type=path, hidden=True),
        click.option("--tappd-socket", type=path, hidden=True),
        click.option("--dstack-socket", type=path, hidden=True),
        click.option("--tsm-root", type=path, hidden=True),
        click.option(
            "--home",
            type=path,
            envvar="AFFIANT_HOME",
            default=default_home,
            show_default="$AFFIANT_HOME, or affiant in the XDG state folder",
            help="State folder that holds platform/, the simulated platform.",
        ),
    ):
        command = option(command)
    return command


def _places(given: Mapping[str, Any]) -> Places:
    from affiant.attestation.quote.providers.machine_paths import Places  # noqa: PLC0415 - help must stay cheap

    named = {name: value for name, value in given.items() if value is not None}
    return Places(**{**named, "home": named["home"].absolute()})


@click.command()
@click.option(
    "--source", type=click.Choice(_SOURCES), default="auto", show_default=True, help="The evidence provider."
)
@click.option(
    "--report-data", callback=_exactly(64), metavar="HEX", help="All 64 bytes of REPORTDATA; never padded."
)
@click.option(
    "--nonce", callback=_exactly(32), metavar="HEX", help="For azure-vtpm: 32 bytes that its vTPM signs."
)
@click.option(
    "--user-data",
    callback=_exactly(64),
    metavar="HEX",
    help="For azure-vtpm: 64 bytes for the runtime data. Written to the vTPM, where they stay.",
)
@click.option(
    "--output",
    type=click.Path(allow_dash=True, path_type=Path),
    required=True,
    metavar="FILE",
    help="Where to write it; `-` is standard output, unless that is a terminal.",
)
@click.option("--force", is_flag=True, help="Write over another file.")
@click.option("--json", "as_json", is_flag=True, help="Print what was collected as one JSON document.")
@_with_places
def take(
    *,
    source: str,
    report_data: bytes | None,
    nonce: bytes | None,
    user_data: bytes | None,
    output: Path,
    force: bool,
    as_json: bool,
    **places: Any,
) -> None:
    """Collect a quote from the TD in which this runs. Verifies only that the quote covers the given data.

    `auto` asks configfs-tsm and dstack if --report-data is given, then azure-vtpm if --nonce is given; it goes on past
    what is absent, and says what it used. It never takes the SIMULATED platform: that must be named. From configfs-tsm,
    dstack and simulated comes a TDX quote in raw bytes; from azure-vtpm a JSON document of a profile of its own.

    Exit codes: 0 collected, 1 not available (the code says why: absent, denied, busy), 2 usage.

    \b
    Examples:
      affiant quote take --report-data HEX --output quote.bin
      affiant quote take --source azure-vtpm --nonce HEX --output evidence.json
      affiant quote take --source simulated --report-data HEX --output - | affiant quote inspect -
    """
    from affiant.attestation.quote.judge.quote_output import (  # noqa: PLC0415 - help must stay cheap
        STANDARD_OUTPUT,
        check_output,
        write_output,
    )
    from affiant.attestation.quote.providers.collection import (  # noqa: PLC0415 - as above
        EvidenceRequest,
        ProviderName,
        collect,
    )

    if as_json and output == STANDARD_OUTPUT:
        raise click.UsageError("--json and --output - both want standard output: name a file")
    with refusals("affiant-quote-taken/1", as_json=as_json):
        check_output(output)
        with _ended_by_signal():
            taken = collect(
                EvidenceRequest(report_data=report_data, nonce=nonce, user_data=user_data),
                _places(places),
                source=None if source == "auto" else ProviderName(source),
                random_bytes=os.urandom,
                sleep=time.sleep,
            )
        write_output(output, taken.content, force=force)
    if as_json:
        print_json(_document(taken, output))
    else:
        click.echo(_text(taken, output), nl=False, err=output == STANDARD_OUTPUT)


@contextmanager
def _ended_by_signal() -> Iterator[None]:
    """SIGTERM unwinds as Ctrl-C does: a directory in configfs would otherwise stay until the next boot."""

    def end(number: int, _: FrameType | None) -> None:
        raise click.exceptions.Exit(128 + number)

    before = signal.signal(signal.SIGTERM, end)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _document(taken: CollectedEvidence, output: Path) -> Mapping[str, object]:
    return {
        "typ": "affiant-quote-taken/1",
        "source": taken.source,
        "profile": taken.profile,
        "simulated": taken.simulated,
        "verified": False,
        "output": str(output),
        "bytes": len(taken.content),
        "digest": sha256_name(taken.content),
        "passed_over": [{"source": name, "refused": error.to_json()} for name, error in taken.passed_over],
        "refused": None,
    }


def _text(taken: CollectedEvidence, output: Path) -> str:
    lines = [
        "SIMULATED evidence: no hardware made it"
        if taken.simulated
        else f"Evidence of the profile {taken.profile}"
    ]
    lines += [f"  {name:<{_NAME}}passed over: {error}" for name, error in taken.passed_over]
    lines += [
        f"  {'source':<{_NAME}}{taken.source}",
        f"  {'written to':<{_NAME}}{'standard output' if str(output) == '-' else output}",
        f"  {'size':<{_NAME}}{len(taken.content)} bytes",
        f"  {'digest':<{_NAME}}{sha256_name(taken.content)}",
        f"  {'verified':<{_NAME}}no, only that it is over what was given",
    ]
    return printable("\n".join(lines)) + "\n"


@click.command()
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
@_with_places
def sources(*, as_json: bool, **places: Any) -> None:
    """Show which evidence providers this machine has, and why not the others. Changes nothing.

    Exit codes: 0 shown, 2 usage.

    \b
    Examples:
      affiant quote sources
      affiant quote sources --json
    """
    from affiant.attestation.quote.providers.probing import probe  # noqa: PLC0415 - help must stay cheap

    found = probe(_places(places))
    if as_json:
        print_json({"typ": "affiant-quote-sources/1", "sources": [_state(each) for each in found]})
        return
    for each in found:
        click.echo(f"{each.source:<{_NAME}}{'here' if each.refusal is None else 'not here'}")
        click.echo(f"{'':<{_NAME}}gives {each.gives}")
        if each.refusal is None:
            click.echo(f"{'':<{_NAME}}not seen before a quote is taken: {each.unseen}")
        else:
            click.echo(printable(f"{'':<{_NAME}}{each.refusal} [{each.refusal.code}]"))


def _state(state: ProviderState) -> Mapping[str, object]:
    return {
        "source": state.source,
        "available": state.refusal is None,
        "gives": state.gives,
        "unseen": state.unseen,
        "refused": None if state.refusal is None else state.refusal.to_json(),
    }
