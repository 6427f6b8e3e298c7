"""``affiant log anchor`` and ``anchors``: the rim. Files, the network, the clock and randomness; decides nothing."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.anchors.options import (
    anchors_folder,
    roots_from,
    roots_options,
    stamp_document,
    stamp_line,
)
from affiant.attestation.log_reading.options import (
    EXIT_REFUSED_LOG,
    EXIT_WARNING,
    json_option,
    key_option,
    log_argument,
    opened_log,
    policy_option,
    refusals,
    settings_of,
    timeout_option,
    tls_ca_option,
    trust_from,
)
from affiant.command_line import print_json, printable
from affiant.errors import AffiantError

if TYPE_CHECKING:
    from affiant.attestation.anchors.anchor_files import AnchorFolder
    from affiant.attestation.anchors.anchoring import Anchored, Stamping
    from affiant.attestation.log_reading.bounded_http import HTTPSettings

__all__ = ["anchor", "anchors"]

_TYP: Final = "affiant-log-anchor/1"
_LIST_TYP: Final = "affiant-log-anchors/1"
_DIR: Final = click.Path(file_okay=False, path_type=Path)
_BUNDLE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_out = click.option("--out", type=_DIR, help="Where anchors lie; default: `anchors` in the log's folder.")


@click.command()
@log_argument
@click.option("--tsa", metavar="URL", help="The timestamp authority to ask (RFC 3161 over HTTP).")
@roots_options
@_out
@click.option("--again", is_flag=True, help="Also where there is an anchor of today.")
@click.option(
    "--renew",
    metavar="SIZE",
    is_flag=False,
    flag_value="newest",
    help="Stamp an anchor anew, with its tokens: a size, `newest` (if left out), `oldest` or `all`.",
)
@click.option("--sha512", is_flag=True, help="Stamp the SHA-512 instead of the SHA-256.")
@click.option("--bundle", type=_BUNDLE, help="Ask nobody: add the first anchor that covers this bundle.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The bundle with its anchor."
)
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
def anchor(
    *,
    log: str,
    tsa: str | None,
    tsa_roots: tuple[Path, ...],
    trust_path: Path | None,
    out: Path | None,
    again: bool,
    renew: str | None,
    sha512: bool,
    bundle: Path | None,
    output: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """Have a timestamp authority say by when the log's newest checkpoint existed.

    The checkpoint is verified (--key or --policy), and must continue the one that was stamped before. The token is
    verified under --tsa-root or --trust before it is kept, as SIZE.note and SIZE.tsr. Once a day is enough; more needs
    --again.

    With --renew an anchor is stamped anew, its tokens with it: once a year, and before the authority's key or hash
    function is no longer believed. With --bundle and -o an anchor is added to a bundle that was made before it.

    Exit codes: 0 done, or nothing to do, 20 something does not hold or the authority refuses, 30 log or authority
    cannot be reached, 2 usage.

    \b
    Examples:
      affiant log anchor /var/lib/affiant/gateway/log/ID --key "$VKEY" --tsa https://tsa.example --tsa-root tsa.pem
      affiant log anchor https://log.example/affiant --policy witnesses.policy --tsa https://tsa.example \\
          --trust trust.json --out anchors
      affiant log anchor LOG --key "$VKEY" --tsa https://tsa.example --tsa-root tsa.pem --renew all
      affiant log anchor LOG --key "$VKEY" --bundle session.affiant.json -o stamped.affiant.json
    """
    from affiant.attestation.anchors.anchor_files import AnchorFolder  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.anchors.anchoring import anchor_newest  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.anchoring import renew as renew_all  # noqa: PLC0415 - as above

    settings = settings_of(tls_ca, timeout)
    if (bundle is None) != (output is None):
        raise click.UsageError("--bundle and -o belong together")
    if (bundle is None) == (tsa is None) or (bundle is not None and (renew or again)):
        raise click.UsageError(
            "name --tsa, to have a checkpoint stamped, or --bundle and -o, to add an anchor"
        )
    with refusals(_TYP, as_json=as_json):
        folder = AnchorFolder(anchors_folder(log, out))
        trust = trust_from(keys, policy)
        if bundle is not None and output is not None:
            with opened_log(log, settings) as source:
                _add(bundle, output, source, trust, folder, as_json=as_json)
            return
        stamping = _stamping(str(tsa), settings, tsa_roots, trust_path, sha512=sha512)
        if renew is not None:
            done = renew_all(trust, folder, stamping, _sizes(folder, renew))
        else:
            with opened_log(log, settings) as source:
                done = [anchor_newest(source, trust, folder, stamping, again=again)]
    _show(done, folder, as_json=as_json)


@click.command()
@log_argument
@roots_options
@_out
@key_option
@policy_option
@tls_ca_option
@timeout_option
@json_option
@click.pass_context
def anchors(
    ctx: click.Context,
    *,
    log: str,
    tsa_roots: tuple[Path, ...],
    trust_path: Path | None,
    out: Path | None,
    keys: tuple[str, ...],
    policy: Path | None,
    tls_ca: Path | None,
    timeout: float,
    as_json: bool,
) -> None:
    """List a log's anchors, and verify each: signature, tokens, and that the log still continues it.

    Exit codes: 0 all hold, 10 there are none, 20 one does not hold, 30 the log cannot be read, 2 usage.

    \b
    Examples:
      affiant log anchors /var/lib/affiant/gateway/log/ID --key "$VKEY" --tsa-root tsa.pem
      affiant log anchors https://log.example/affiant --out anchors --policy witnesses.policy --trust trust.json --json
    """
    from affiant.attestation.anchors.anchor_files import AnchorFolder  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.anchors.anchoring import judge_anchor  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.proving import prove_consistency  # noqa: PLC0415 - as above
    from affiant.attestation.log_reading.reader import read_checkpoint  # noqa: PLC0415 - as above

    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    with refusals(_LIST_TYP, as_json=as_json):
        folder, trust = AnchorFolder(anchors_folder(log, out)), trust_from(keys, policy)
        roots = roots_from(tsa_roots, trust_path)
        with opened_log(log, settings_of(tls_ca, timeout)) as source:
            newest = trust.verify_log(read_checkpoint(source)).checkpoint
            for size in folder.sizes():
                try:
                    found, stamp = judge_anchor(trust, folder.read(size), roots=roots, at=datetime.now(UTC))
                    prove_consistency(source, found, newest)
                except AffiantError as refusal:
                    rows.append({"size": size, "refused": refusal.to_json()})
                    lines.append(printable(f"{size} leaves: REFUSED {refusal} [{refusal.code}]"))
                    continue
                rows.append(dict(stamp_document(size, stamp)))
                lines.append(stamp_line(size, stamp))
    if as_json:
        print_json({"typ": _LIST_TYP, "origin": newest.origin, "size": newest.size, "anchors": rows})
    else:
        click.echo("\n".join(lines or ["no anchor"]))
    refused = any("refused" in row for row in rows)
    ctx.exit(EXIT_REFUSED_LOG if refused else 0 if rows else EXIT_WARNING)


def _stamping(
    tsa: str, settings: HTTPSettings, files: tuple[Path, ...], trust_path: Path | None, *, sha512: bool
) -> Stamping:
    from affiant.attestation.anchors.anchoring import Stamping  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.imprint import Digest  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.request import NONCE_SIZE  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.timestamp_authority import (  # noqa: PLC0415 - as above
        ask_authority,
        check_authority,
    )

    check_authority(tsa)
    return Stamping(
        ask=lambda request: ask_authority(tsa, request, settings),
        nonce=lambda: os.urandom(NONCE_SIZE),
        roots=roots_from(files, trust_path),
        now=datetime.now(UTC),
        digest=Digest.SHA512 if sha512 else Digest.SHA256,
    )


def _sizes(folder: AnchorFolder, which: str) -> Sequence[int]:
    """The anchors that ``which`` names.

    Raises:
        AnchorAbsent: there is none.
    """
    from affiant.attestation.anchors.errors import AnchorAbsent  # noqa: PLC0415 - as above

    sizes = folder.sizes()
    chosen = {"newest": sizes[-1:], "oldest": sizes[:1], "all": sizes}.get(which)
    if chosen is None:
        chosen = [size for size in sizes if str(size) == which]
    if not chosen:
        raise AnchorAbsent("there is no such anchor", where=str(folder.path), found=f"{len(sizes)} anchors")
    return chosen


def _show(done: Sequence[Anchored], folder: AnchorFolder, *, as_json: bool) -> None:
    if as_json:
        rows = [
            {**stamp_document(each.checkpoint.size, each.stamp), "new": each.new, "why": each.why}
            for each in done
        ]
        print_json({"typ": _TYP, "folder": str(folder.path), "anchors": rows})
        return
    for each in done:
        line = stamp_line(each.checkpoint.size, each.stamp)
        place = printable(str(folder.path / f"{each.checkpoint.size}.tsr"))
        click.echo(f"{place}: {line}" if each.new else f"nothing to do, {each.why}: {line}")


def _add(bundle: Path, output: Path, source: Any, trust: Any, folder: AnchorFolder, *, as_json: bool) -> None:
    from affiant.attestation.anchors.adding import add_anchor  # noqa: PLC0415 - as above
    from affiant.attestation.bundle import MAX_BUNDLE, parse_bundle  # noqa: PLC0415 - as above
    from affiant.files import write_whole  # noqa: PLC0415 - as above

    if output.exists():
        raise click.UsageError(f"{output} exists already: name another file")
    with bundle.open("rb") as opened:
        found, file = add_anchor(parse_bundle(opened.read(MAX_BUNDLE + 1)), source, trust, folder)
    try:
        write_whole(output, found.to_bytes(), replace=False)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    if as_json:
        print_json({"typ": _TYP, "written": str(output), "size": file.size})
    else:
        click.echo(printable(f"{output}: with the anchor over {file.size} leaves"))
