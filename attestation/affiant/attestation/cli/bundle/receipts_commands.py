"""The commands ``affiant receipts``: read files and the clock, print, and choose the exit code."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from affiant.attestation.cli.options.timestamp_option import timestamp
from affiant.attestation.cli.options.trust_option import read_trust_file, trust_option
from affiant.command_line import EXIT_REFUSED, UsageGroup
from affiant.document_output import AS_JSON, DocumentCommand, Output, print_output
from affiant.printable import one_line

if TYPE_CHECKING:
    from affiant.attestation.audit.receipts.indexing import Indexed

__all__ = ["receipts"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_PATH: Final = click.Path(exists=True, path_type=Path)
_STORE: Final = click.Path(dir_okay=False, path_type=Path)
_EXIT_FOUND: Final = 10
_TYP_INDEX: Final = "affiant-receipt-index/1"
_TYP_FIND: Final = "affiant-receipt-search/1"
_JUDGED: Final = (
    "Each receipt is listed as it was judged when its bundle was indexed; hidden values only where disclosed."
)

_store_option = click.option(
    "--store", "store_path", type=_STORE, required=True, help="The index, one SQLite file."
)


@click.group(cls=UsageGroup)
def receipts() -> None:
    """Find which receipts rest on something that has since been broken.

    \b
    Examples:
      affiant receipts index --store receipts.sqlite --trust trust.json archive/
      affiant receipts find --store receipts.sqlite --fmspc 90c06f000000 --tcb-status OutOfDate
    """


@receipts.command(cls=DocumentCommand)
@_store_option
@trust_option
@click.option(
    "--at", callback=timestamp, metavar="TIME", help="Judge the bundles at this time (default: now)."
)
@click.argument("bundles", nargs=-1, required=True, type=_PATH, metavar="BUNDLE...")
@click.pass_context
def index(
    ctx: click.Context, *, store_path: Path, trust_path: Path, at: datetime, bundles: tuple[Path, ...]
) -> Output:
    """Judge bundles and index what their receipts rest on; a folder means every bundle below it.

    Each bundle is one transaction, durable before the next; one that is there already, under the same trust file, stays
    as it was. The verdict that a bundle had is kept, and never becomes better. A bundle with a receipt that is not
    authentic is refused, and the others go on.

    Exit codes: 0 all are indexed, 1 some were refused (or the store was), 2 usage.

    \b
    Examples:
      affiant receipts index --store receipts.sqlite --trust trust.json session.affiant.json
      affiant receipts index --store receipts.sqlite --trust trust.json archive/ --json
    """
    from affiant.attestation.audit.receipts.indexing import End, index_file  # noqa: PLC0415 - as above
    from affiant.attestation.audit.receipts.store import open_store  # noqa: PLC0415 - as above
    from affiant.attestation.cli.log.options import progress_of  # noqa: PLC0415 - as above
    from affiant.attestation.release.manifest import build_name  # noqa: PLC0415 - as above
    from affiant.attestation.verifier.files.bundle_files import find_bundles  # noqa: PLC0415 - help must stay cheap

    trust = read_trust_file(trust_path)
    paths = find_bundles(bundles)
    ends: list[Indexed] = []
    progress = progress_of("bundles indexed", len(paths))
    with open_store(store_path, make=True) as store:
        for path in paths:
            ends.append(indexed := index_file(path, store, trust, at=at, build=build_name()))
            if indexed.error is not None and not ctx.meta[AS_JSON]:
                click.echo(
                    f"affiant: refused {one_line(str(path))}: {one_line(str(indexed.error))}", err=True
                )
            progress(len(ends))
    counts = {str(end): sum(each.end is end for each in ends) for end in End}
    return Output(
        {"typ": _TYP_INDEX, "bundles": [_end_document(each) for each in ends], "counts": counts},
        EXIT_REFUSED if counts["refused"] or not ends else 0,
    )


def _end_document(each: Indexed) -> dict[str, object]:
    return {
        "path": str(each.path),
        "end": str(each.end),
        "bundle": None if each.bundle is None else each.bundle.digest,
        "tier": None if each.bundle is None else each.bundle.tier,
        "level": None if each.bundle is None else each.bundle.level,
        "simulated": None if each.bundle is None else each.bundle.simulated,
        "receipts": each.receipts,
        "refused": None if each.error is None else each.error.to_json(),
    }


def _seconds(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
    return None if value is None else int(timestamp(ctx, param, value).timestamp())


_Function = TypeVar("_Function", bound=Callable[..., Any])


def _several(name: str, column: str, metavar: str, text: str) -> Callable[[_Function], _Function]:
    return click.option(name, column, multiple=True, metavar=metavar, help=text)


@receipts.command(cls=DocumentCommand)
@_store_option
@_several("--tcb-status", "tcb_status", "STATUS", "TCB level of the platform, as UpToDate or OutOfDate.")
@_several("--advisory", "advisory", "ID", "An advisory that the collateral of the time lists, INTEL-SA-...")
@_several("--mrseam", "mrseam", "HEX", "Measurement of the TDX module.")
@_several("--mrtd", "mrtd", "HEX", "Measurement of the image.")
@_several("--fmspc", "fmspc", "HEX", "Kind of platform.")
@_several("--ppid", "ppid", "HEX", "One platform.")
@_several("--key", "kid", "THUMBPRINT", "A signer's key.")
@_several("--keyset", "keyset", "DIGEST", "A signer's keyset.")
@_several(
    "--profile", "profile", "DIGEST|ID", "A profile: by its digest, or by its id where that is disclosed."
)
@_several("--model", "model", "ID", "A model that was asked for.")
@_several("--session", "session", "ID", "A session.")
@_several("--kind", "kind", "KIND", "A kind of record.")
@click.option(
    "--since", callback=_seconds, metavar="TIME", help="Signed then or later, by the signer's clock."
)
@click.option("--until", callback=_seconds, metavar="TIME", help="Signed before.")
@click.option(
    "--of",
    type=click.Choice(["gateway", "session"]),
    help="Evidence and keys of this signer alone (default: either).",
)
@click.option("--count", "only_count", is_flag=True, help="Print how many different receipts there are.")
@click.option(
    "--ndjson", "as_lines", is_flag=True, help="Print one JSON object a line, for any number of them."
)
@click.pass_context
def find(
    ctx: click.Context,
    /,
    *,
    store_path: Path,
    since: int | None,
    until: int | None,
    of: str | None,
    only_count: bool,
    as_lines: bool,
    **values: Sequence[str],
) -> Output:
    """Which receipts rest on this: each with what it rests on, through whom, and its bundle's verdict when indexed.

    Several values of one option: any of them. Several options: all of them; those about evidence and keys hold of one
    signer. Hidden values are found only where a bundle discloses them.

    Exit codes: 0 none was found, 10 some were, 2 usage, 1 the store cannot be read.

    \b
    Examples:
      affiant receipts find --store receipts.sqlite --advisory INTEL-SA-00837 --since 2026-01-01T00:00:00Z
      affiant receipts find --store receipts.sqlite --mrseam 97907a... --of gateway --ndjson
      affiant receipts find --store receipts.sqlite --profile code_implementer --model gpt-5 --count
    """
    from affiant.attestation.audit.receipts.affected_records import count_of, coverage_of  # noqa: PLC0415 - as above
    from affiant.attestation.audit.receipts.affected_records import find as find_in  # noqa: PLC0415 - as above
    from affiant.attestation.audit.receipts.conditions import Conditions  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.audit.receipts.store import open_store  # noqa: PLC0415 - as above

    as_json = ctx.meta[AS_JSON]
    if as_json and as_lines:
        raise click.UsageError("--json and --ndjson exclude each other")
    conditions = Conditions(values, of, since, until)
    with open_store(store_path, make=False) as store:
        count = count_of(store, conditions)
        code = _EXIT_FOUND if count else 0
        found = (each.to_json() for each in find_in(store, conditions))
        if only_count and not as_json:
            click.echo(str(count))
            ctx.exit(code)
        if as_lines and not only_count:
            for each in found:
                print_output(Output(each), as_json=True, one_line=True)
            ctx.exit(code)
        document = {"typ": _TYP_FIND, "searched": coverage_of(store).to_json(), "count": count}
        if only_count or as_json:
            return Output(document | ({} if only_count else {"found": list(found)}), code)
        print_output(Output(document), as_json=False)
        for each in found:  # one at a time: there may be millions
            print_output(Output({"found": [each]}), as_json=False)
        return Output({}, code, (_JUDGED,) if count else ())
