"""The command ``affiant verdict``: reads signed verdicts. It prints, and chooses exit codes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from affiant.command_line import UsageGroup, print_json, printable, refusals

if TYPE_CHECKING:
    from affiant.attestation.verdict.signed_verdict import SignedVerdict

__all__ = ["verdict"]

_FILE: Final = click.Path(exists=True, dir_okay=False, readable=True, path_type=Path)
_DOCUMENT: Final = "affiant-signed-verdict/1"
_SHOWN: Final = {
    "outcome": "outcome",
    "platform": "platform_class",
    "demanded": "demand",
    "judged at": "at",
    "verifier": "tool",
    "trust file": "trust",
    "requirements off": "requirements_off",
    "not made": "not_made",
    "tier": "tier",
    "level": "level",
    "population": "counts",
    "unwitnessed": "unwitnessed",
    "exceptions": "exceptions",
}
"""Label -> member of the verdict's document: what the first lines of every verdict say (trust rules, 14)."""
_NULL: Final = {"level": "none reached", "unwitnessed": "not known"}
"""Member -> what null says there."""
_WIDTH: Final = 18
_MAX_LISTED: Final = 100
_NOT_JUDGED: Final = 30
"""As ``affiant verify`` where nothing can be said: a signature that was held against no key."""


@click.group(cls=UsageGroup)
def verdict() -> None:
    """Check signed verdicts: who found what about which bundle."""


@verdict.command()
@click.argument("file", type=_FILE)
@click.option(
    "--key",
    "key_path",
    type=_FILE,
    metavar="PUB",
    help="The signer's public key (PEM). Nothing is proven without it.",
)
@click.option(
    "--bundle",
    "bundle_path",
    type=_FILE,
    metavar="BUNDLE",
    help="The bundle that the verdict has to be about.",
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document instead of the table.")
@click.pass_context
def check(
    ctx: click.Context, *, file: Path, key_path: Path | None, bundle_path: Path | None, as_json: bool
) -> None:
    """Check FILE, a verdict that `affiant verify --sign` signed, and show what it says.

    The signature shows that the key's holder states the verdict: not that the verdict is right, and not when it was
    signed. To judge a bundle for yourself, use `affiant verify` with your own trust file.

    Exit codes: where the signature holds, and the bundle is the one that was given, the verdict's own (0 affirming, 10
    warning, 20 contraindicated, 30 none, 40 simulated); 30 also without --key; 1 the signature does not hold, the file
    is no signed verdict, or it is about another bundle; 2 usage.

    \b
    Examples:
      affiant verdict check session.affiant.json.verdict.dsse.json --key auditor.pub.pem
      affiant verdict check verdict.dsse.json --key auditor.pub.pem --bundle session.affiant.json --json
    """
    from affiant.attestation.signatures.profiles.signing_keys import MAX_KEY_FILE, parse_public_pem  # noqa: PLC0415 - help must stay cheap
    from affiant.attestation.verdict.signed_verdict import MAX_SIGNED_VERDICT, parse_signed_verdict  # noqa: PLC0415 - as above

    key = None if key_path is None else parse_public_pem(_read(key_path, MAX_KEY_FILE))
    with refusals(_DOCUMENT, as_json=as_json, verdict=None):
        found = parse_signed_verdict(_read(file, MAX_SIGNED_VERDICT))
        if key is not None:
            found.verify(key)
        if bundle_path is not None:
            found.require_about(_name_of(bundle_path))
    signer = None if key is None else key.id
    if as_json:
        print_json(
            {
                "typ": _DOCUMENT,
                "refused": None,
                "signer": signer,
                "bundle": {"name": found.bundle, "compared": bundle_path is not None},
                "verdict": found.document,
            }
        )
    else:
        for line in _lines(found, signer, compared=bundle_path is not None):
            click.echo(printable(line))
    ctx.exit(found.exit_code if key is not None else _NOT_JUDGED)


def _read(file: Path, limit: int) -> bytes:
    """The file's bytes, or the first ``limit`` + 1 of them, which every parser refuses."""
    with file.open("rb") as opened:
        return opened.read(limit + 1)


def _name_of(bundle: Path) -> str:
    with bundle.open("rb") as opened:
        return f"sha256:{hashlib.file_digest(opened, 'sha256').hexdigest()}"


def _lines(found: SignedVerdict, signer: str | None, *, compared: bool) -> Iterator[str]:
    """What a person reads. Everything from the verdict is quoted: it is the signer's word."""
    from affiant.attestation.verdict.lines import asked_text, wrapped  # noqa: PLC0415 - help must stay cheap

    if signer is None:
        yield f"{'NOT VERIFIED':<{_WIDTH}}without --key nothing is verified. Name the signer's public key."
    else:
        yield f"{'SIGNED VERDICT':<{_WIDTH}}the signature holds under the key {signer}"
    about = "the file that was given" if compared else "not compared with a file"
    yield f"{'bundle':<{_WIDTH}}{found.bundle}, {about}"
    asked = found.document.get("asked", {})
    about = asked_text(asked) if isinstance(asked, dict) else _said(asked)
    yield from wrapped(f"{'asked':<{_WIDTH}}", about)
    for label, member in _SHOWN.items():
        yield from wrapped(f"{label:<{_WIDTH}}", _stated(found.document, member))
    if found.document.get("simulated") is True:
        yield f"{'SIMULATED':<{_WIDTH}}the evidence comes from a simulated platform"
    yield f"{'exit code':<{_WIDTH}}{found.exit_code}"


def _stated(document: Mapping[str, object], member: str) -> str:
    if member not in document:
        return "not stated"
    value = document[member]
    return _NULL.get(member, "none") if value is None else _said(value)


def _said(value: object) -> str:
    """A member of the document: strings are quoted, lists are bounded."""
    from affiant.attestation.verdict.lines import one_line, quoted  # noqa: PLC0415 - help must stay cheap

    match value:
        case str():
            return quoted(value, limit=200)
        case list():
            more = [f"and {len(value) - _MAX_LISTED} more"] if len(value) > _MAX_LISTED else []
            return ", ".join((*map(_inner, value[:_MAX_LISTED]), *more)) or "none"
        case dict():
            members = list(value.items())[:_MAX_LISTED]
            return (
                ", ".join(f"{one_line(name, limit=100)} {_inner(each)}" for name, each in members) or "none"
            )
        case None:
            return "none"
        case _:
            return json.dumps(value)


def _inner(value: object) -> str:
    return f"({_said(value)})" if isinstance(value, dict | list) else _said(value)
