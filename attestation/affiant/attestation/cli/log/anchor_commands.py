"""Implements ``affiant log anchor``. It uses files, the network, the clock and randomness; others decide."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.attestation.cli.log.anchor_options import (
    anchors_folder,
    out_option,
    roots_from,
    roots_options,
    stamp_document,
)
from affiant.attestation.cli.log.options import (
    FILE,
    LogAccess,
    LogCommand,
    log_options,
    read_bounded,
    require_new,
    write_new,
)
from affiant.attestation.cli.log.sigstore_options import signed_document, signing_from, signing_options
from affiant.document_output import Output

if TYPE_CHECKING:
    from affiant.attestation.anchors.anchor_files import AnchorFolder
    from affiant.attestation.anchors.anchoring import Stamping
    from affiant.attestation.log_reading.bounded_http import HTTPSettings

__all__ = ["anchor"]

_TYP: Final = "affiant-log-anchor/1"


@click.command(cls=LogCommand, typ=_TYP)
@log_options(spki=False)
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
@click.option("--bundle", type=FILE, help="Without a request: add the first anchor that covers this bundle.")
@click.option(
    "-o", "--output", type=click.Path(dir_okay=False, path_type=Path), help="The bundle with its anchor."
)
def anchor(
    *,
    access: LogAccess,
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
) -> Output:
    """Have a timestamp authority, or sigstore, attest by when the log's newest checkpoint existed.

    The checkpoint is verified (--key or --policy), and must continue the one that was stamped before. The token is
    verified under --tsa-root or --trust before it is kept, as SIZE.note and SIZE.tsr. Once a day is enough; more needs
    --again.

    With --sigstore an identity signs the checkpoint through the services of --trust-config. The result is verified and
    kept as SIZE.note and SIZE.sigstore.json. The token is that of --identity-token, or of SIGSTORE_IDENTITY_TOKEN. The
    log of a public deployment is public and forgets nothing: identity, time and digest stay in it.

    With --renew an anchor and its tokens are stamped anew: once a year, and before the authority's key or hash
    function expires. With --bundle and -o the first anchor of each kind that covers a bundle joins it.

    Exit codes: 0 done, or nothing to do, 20 a check fails or the authority refuses, 30 log, authority or sigstore
    cannot be reached, 2 usage.

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
    folder, trust = AnchorFolder(anchors_folder(access.log, out)), access.trust()
    if bundle is not None and output is not None:
        return Output(_add(access, bundle, output, folder))
    if by_sigstore:
        signing = signing_from(trust_config, identity_token, datetime.now(UTC))
        with access.opened() as source:
            signed = sign_newest(source, trust, folder, signing, again=again)
        rows = [{**signed_document(signed), "new": signed.new, "why": signed.why}]
    else:
        stamping = _stamping(str(tsa), access.settings, tsa_roots, trust_path, sha512=sha512)
        if renew is not None:
            done = renew_all(trust, folder, stamping, _sizes(folder, renew))
        else:
            with access.opened() as source:
                done = [anchor_newest(source, trust, folder, stamping, again=again)]
        rows = [
            {**stamp_document(each.checkpoint.size, each.stamp), "new": each.new, "why": each.why}
            for each in done
        ]
    return Output({"typ": _TYP, "folder": str(folder.path), "anchors": rows})


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


def _add(access: LogAccess, bundle: Path, output: Path, folder: AnchorFolder) -> Mapping[str, object]:
    from affiant.attestation.anchors.adding import add_anchors  # noqa: PLC0415 - as above
    from affiant.attestation.anchors.anchor_files import AnchorFile  # noqa: PLC0415 - as above
    from affiant.attestation.bundle.bundle import MAX_BUNDLE, parse_bundle  # noqa: PLC0415 - as above

    require_new(output)
    parsed = parse_bundle(read_bounded(bundle, MAX_BUNDLE))
    with access.opened() as source:
        found, files = add_anchors(parsed, source, access.trust(), folder)
    write_new(output, found.to_bytes())
    added = {"tsr" if isinstance(file, AnchorFile) else "sigstore": file.size for file in files}
    return {"typ": _TYP, "written": str(output), "size": files[0].size, "added": added}
