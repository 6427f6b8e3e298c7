"""Implements ``affiant log anchor``. It uses files, the network, the clock and randomness; others decide."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from affiant.attestation.cli.log.anchor_options import (
    anchors_folder,
    out_option,
    roots_from,
    roots_options,
    stamp_document,
    stamp_line,
)
from affiant.attestation.cli.log.options import (
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
from affiant.attestation.cli.log.sigstore_options import (
    signed_document,
    signed_line,
    signing_from,
    signing_options,
)
from affiant.command_line import print_json, printable

if TYPE_CHECKING:
    from affiant.attestation.anchors.anchor_files import AnchorFolder
    from affiant.attestation.anchors.anchoring import Anchored, Stamping
    from affiant.attestation.anchors.checkpoint_signing import SignedAnchor
    from affiant.attestation.log_reading.bounded_http import HTTPSettings

__all__ = ["anchor"]

_TYP: Final = "affiant-log-anchor/1"
_KINDS: Final = {"tsr": "token", "sigstore": "signature"}
_BUNDLE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)


@click.command()
@log_argument
@click.option("--tsa", metavar="URL", help="The timestamp authority to ask (RFC 3161 over HTTP).")
@roots_options
@signing_options
@out_option
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
    by_sigstore: bool,
    trust_config: Path | None,
    identity_token: Path | None,
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
    """Have a timestamp authority, or sigstore, say by when the log's newest checkpoint existed.

    The checkpoint is verified (--key or --policy), and must continue the one that was stamped before. The token is
    verified under --tsa-root or --trust before it is kept, as SIZE.note and SIZE.tsr. Once a day is enough; more needs
    --again.

    With --sigstore an identity signs the checkpoint, by services of --trust-config, and what came back is verified and
    kept as SIZE.note and SIZE.sigstore.json. The token is that of --identity-token, or of SIGSTORE_IDENTITY_TOKEN. The
    log of a public deployment is public and forgets nothing: identity, time and digest stay in it.

    With --renew an anchor is stamped anew, its tokens with it: once a year, and before the authority's key or hash
    function is no longer believed. With --bundle and -o the first anchor of each kind that covers a bundle joins it.

    Exit codes: 0 done, or nothing to do, 20 something does not hold or the authority refuses, 30 log, authority or
    sigstore cannot be reached, 2 usage.

    \b
    Examples:
      affiant log anchor /var/lib/affiant/gateway/log/ID --key "$VKEY" --tsa https://tsa.example --tsa-root tsa.pem
      affiant log anchor https://log.example/affiant --policy witnesses.policy --tsa https://tsa.example \\
          --trust trust.json --out anchors
      affiant log anchor LOG --key "$VKEY" --tsa https://tsa.example --tsa-root tsa.pem --renew all
      affiant log anchor LOG --key "$VKEY" --sigstore --trust-config trust_config.json --identity-token token
      affiant log anchor LOG --key "$VKEY" --bundle session.affiant.json -o stamped.affiant.json
    """
    from affiant.attestation.anchors.anchor_files import AnchorFolder  # noqa: PLC0415 - help stays cheap
    from affiant.attestation.anchors.anchoring import anchor_newest  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.anchoring import renew as renew_all  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.checkpoint_signing import sign_newest  # noqa: PLC0415 - as above

    settings = settings_of(tls_ca, timeout)
    if (bundle is None) != (output is None):
        raise click.UsageError("--bundle and -o belong together")
    if [bundle is not None, tsa is not None, by_sigstore].count(True) != 1:
        raise click.UsageError(
            "name --tsa or --sigstore, to have a checkpoint anchored, or --bundle and -o, to add an anchor"
        )
    if (renew and tsa is None) or (again and bundle is not None) or (sha512 and tsa is None):
        raise click.UsageError("--renew and --sha512 belong to --tsa, --again to --tsa or --sigstore")
    if by_sigstore and (tsa_roots or trust_path is not None):
        raise click.UsageError(
            "--sigstore verifies under the roots of --trust-config: no --tsa-root, no --trust"
        )
    if not by_sigstore and (trust_config is not None or identity_token is not None):
        raise click.UsageError("--trust-config and --identity-token belong to --sigstore")
    with refusals(_TYP, as_json=as_json):
        folder = AnchorFolder(anchors_folder(log, out))
        trust = trust_from(keys, policy)
        if bundle is not None and output is not None:
            with opened_log(log, settings) as source:
                _add(bundle, output, source, trust, folder, as_json=as_json)
            return
        if by_sigstore:
            signing = signing_from(trust_config, identity_token, datetime.now(UTC))
            with opened_log(log, settings) as source:
                signed = sign_newest(source, trust, folder, signing, again=again)
            _show_signed(signed, folder, as_json=as_json)
            return
        stamping = _stamping(str(tsa), settings, tsa_roots, trust_path, sha512=sha512)
        if renew is not None:
            done = renew_all(trust, folder, stamping, _sizes(folder, renew))
        else:
            with opened_log(log, settings) as source:
                done = [anchor_newest(source, trust, folder, stamping, again=again)]
    _show(done, folder, as_json=as_json)


def _stamping(
    tsa: str, settings: HTTPSettings, files: tuple[Path, ...], trust_path: Path | None, *, sha512: bool
) -> Stamping:
    from affiant.attestation.anchors.anchoring import Stamping  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.timestamp_authority import (  # noqa: PLC0415 - as above
        ask_authority,
        check_authority,
    )
    from affiant.attestation.anchors.timestamp_request import NONCE_SIZE  # noqa: PLC0415 - as above
    from affiant.attestation.signatures.timestamps.imprint import Digest  # noqa: PLC0415 - as above

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
    from affiant.attestation.signatures.timestamps.errors import AnchorAbsent  # noqa: PLC0415 - as above

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


def _show_signed(done: SignedAnchor, folder: AnchorFolder, *, as_json: bool) -> None:
    if as_json:
        row = {**signed_document(done), "new": done.new, "why": done.why}
        print_json({"typ": _TYP, "folder": str(folder.path), "anchors": [row]})
        return
    place = printable(str(folder.path / f"{done.checkpoint.size}.sigstore.json"))
    click.echo(
        f"{place}: {signed_line(done)}" if done.new else f"nothing to do, {done.why}: {signed_line(done)}"
    )


def _add(bundle: Path, output: Path, source: Any, trust: Any, folder: AnchorFolder, *, as_json: bool) -> None:
    from affiant.attestation.anchors.adding import add_anchors  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.anchor_files import AnchorFile  # noqa: PLC0415 - as above
    from affiant.attestation.bundle.bundle import MAX_BUNDLE, parse_bundle  # noqa: PLC0415 - as above
    from affiant.files import write_whole  # noqa: PLC0415 - as above

    if output.exists():
        raise click.UsageError(f"{output} exists already: name another file")
    with bundle.open("rb") as opened:
        found, files = add_anchors(parse_bundle(opened.read(MAX_BUNDLE + 1)), source, trust, folder)
    try:
        write_whole(output, found.to_bytes(), replace=False)
    except OSError as error:
        raise click.UsageError(f"{output} cannot be written: {error.strerror}") from error
    added = {"tsr" if isinstance(file, AnchorFile) else "sigstore": file.size for file in files}
    if as_json:
        print_json({"typ": _TYP, "written": str(output), "size": files[0].size, "added": added})
        return
    kinds = " and ".join(f"{_KINDS[kind]} over {size} leaves" for kind, size in added.items())
    click.echo(printable(f"{output}: with the {kinds}"))
