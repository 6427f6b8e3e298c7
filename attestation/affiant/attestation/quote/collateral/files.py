"""Reads and writes collateral in files: one JSON document, or a folder with one file for each response of the service.

The forms are those of ``docs/formats/collateral.md``; `affiant quote verify --collateral` reads both. A folder may
hold several platforms: TCB Info by FMSPC, PCK revocation lists by authority, the other items once. Which of them is
meant is said, or is the only one there; it is never guessed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from affiant.attestation.quote.collateral.errors import CollateralAbsent, SettingsInvalid
from affiant.attestation.quote.collateral.issuer_header import decode_issuer_chain
from affiant.attestation.quote.collateral.single_file import MAX_COLLATERAL_FILE, parse_collateral_file
from affiant.attestation.quote.collateral.wanted import Authority, Platform, platform_of
from affiant.attestation.tdx.pki.crl_encoding import decode_revocation_list
from affiant.attestation.tdx.quote.errors import CollateralMalformed
from affiant.attestation.tdx.quote.quote import TDQuote
from affiant.attestation.tdx.tcb.collateral import Collateral
from affiant.errors import NotAuthenticError

__all__ = [
    "SINGLE_FILE",
    "Choice",
    "file_names",
    "is_single",
    "other_files",
    "platform_named_by",
    "read_collateral",
    "read_collateral_path",
]

SINGLE_FILE: Final = "collateral.json"
_CHAIN_ENDINGS: Final = ("pem", "txt")
_LIST_ENDINGS: Final = ("crl", "der", "pem", "hex")
_TCB_INFO: Final = re.compile(r"tcb_info(?:_([0-9a-f]{12}))?\.json\Z")
_PCK_CRL: Final = re.compile(rf"pck_crl(?:_(platform|processor))?\.(?:{'|'.join(_LIST_ENDINGS)})\Z")


@dataclass(frozen=True, slots=True)
class Choice:
    """Which platform of a folder is meant; None: the only one."""

    fmspc: bytes | None = None
    authority: Authority | None = None


def file_names(platform: Platform) -> Mapping[str, str]:
    """Item -> the file that it is written to."""
    tcb_info, pck_crl = f"tcb_info_{platform.fmspc.hex()}", f"pck_crl_{platform.authority}"
    return {
        "tcb_info": f"{tcb_info}.json",
        "tcb_info_issuer_chain": f"{tcb_info}_chain.pem",
        "qe_identity": "qe_identity.json",
        "qe_identity_issuer_chain": "qe_identity_chain.pem",
        "root_ca_crl": "root_ca_crl.crl",
        "pck_crl": f"{pck_crl}.crl",
        "pck_crl_issuer_chain": f"{pck_crl}_chain.pem",
    }


def other_files(platform: Platform, names: frozenset[str]) -> tuple[str, ...]:
    """The ``names`` in a folder that a reader would take instead of, or beside, those of :func:`file_names`."""
    own = set(file_names(platform).values())
    tcb_info, pck_crl = f"tcb_info_{platform.fmspc.hex()}", f"pck_crl_{platform.authority}"
    chains = {
        f"{stem}_chain.{ending}" for stem in (tcb_info, "qe_identity", pck_crl) for ending in _CHAIN_ENDINGS
    }
    lists = {f"{stem}.{ending}" for stem in ("root_ca_crl", pck_crl) for ending in _LIST_ENDINGS}
    return tuple(sorted(name for name in names if name.lower() in (chains | lists | {SINGLE_FILE}) - own))


def read_collateral_path(path: Path, choice: Choice) -> Collateral:
    """The collateral in the file or folder at ``path``. Nothing is verified.

    Raises:
        CollateralAbsent: an item is missing, stands there twice, or cannot be read.
        SettingsInvalid: several platforms stand there, and none is chosen.
        CollateralMalformed: a file is not what its name says.
    """
    if not is_single(path):
        return _Folder(path).collateral(choice)
    return parse_collateral_file(_read(path / SINGLE_FILE if path.is_dir() else path))


def read_collateral(path: Path, quote: TDQuote) -> Collateral:
    """The collateral at ``path``, a file or a folder, for the platform that ``quote`` names. Nothing is verified.

    Raises:
        CollateralAbsent: an item is missing, stands there twice, or cannot be read.
        CollateralMalformed: a file is not what its name says.
        ``pck.chain``, MalformedError: the quote's chain, which would say what to look for, does not.
    """
    if is_single(path):
        return read_collateral_path(path, Choice())
    platform = platform_named_by(quote)
    return read_collateral_path(path, Choice(platform.fmspc, platform.authority))


def platform_named_by(quote: TDQuote) -> Platform:
    """The platform that ``quote`` names; nothing is verified.

    Raises:
        ``pck.chain``: its chain is under other names, which is the quote's fault and no setting of the reader's.
        MalformedError: its chain cannot be read.
    """
    try:
        return platform_of(quote)
    except SettingsInvalid as error:
        raise NotAuthenticError(
            error.message, expected=error.expected, found=error.found, code="pck.chain"
        ) from error


def is_single(path: Path) -> bool:
    """Whether ``path`` is one document, or a folder that holds one: nothing is left to choose then."""
    return not path.is_dir() or (path / SINGLE_FILE).is_file()


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_COLLATERAL_FILE + 1)
    except OSError as error:
        raise CollateralAbsent(
            "a file of the collateral cannot be read", where=str(path), found=error.strerror
        ) from error


class _Folder:
    """The files of one folder by lower-case name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._files = {entry.name.lower(): entry for entry in path.iterdir() if entry.is_file()}
        except OSError as error:
            raise CollateralAbsent(
                "the folder of collateral cannot be read", where=str(path), found=error.strerror
            ) from error

    def collateral(self, choice: Choice) -> Collateral:
        """The items of the platform that is meant."""
        fmspc = None if choice.fmspc is None else choice.fmspc.hex()
        tcb_info = self._stem("tcb_info", _TCB_INFO, fmspc, "FMSPC", "--fmspc")
        pck_crl = self._stem("pck_crl", _PCK_CRL, choice.authority, "PCK authority", "--ca")
        return Collateral(
            tcb_info=_read(self._one(("json",), tcb_info)),
            tcb_info_issuer_chain=self._chain(tcb_info),
            qe_identity=_read(self._one(("json",), "qe_identity")),
            qe_identity_issuer_chain=self._chain("qe_identity"),
            root_ca_crl=self._list("root_ca_crl", "root_ca"),
            pck_crl=self._list(pck_crl),
            pck_crl_issuer_chain=self._chain(pck_crl),
        )

    def _stem(self, stem: str, pattern: re.Pattern[str], chosen: str | None, what: str, option: str) -> str:
        """``stem_which`` of the one that is chosen or alone, or ``stem`` where the file names none."""
        there = {match.group(1) for name in self._files if (match := pattern.match(name)) is not None}
        if chosen is not None:
            return f"{stem}_{chosen}" if chosen in there or None not in there else stem
        named = sorted(which for which in there if which is not None)
        if len(there) > 1:
            raise SettingsInvalid(
                f"the folder holds more than one {what}",
                where=str(self._path),
                found=", ".join(named),
                hint=f"Say which one is meant: {option}.",
            )
        return f"{stem}_{named[0]}" if named else stem

    def _one(self, endings: tuple[str, ...], *stems: str) -> Path:
        names = [f"{stem}.{ending}" for stem in stems for ending in endings]
        found = [self._files[name] for name in names if name in self._files]
        if len(found) != 1:
            raise CollateralAbsent(
                "the folder lacks an item of the collateral"
                if not found
                else "two files for one item of the collateral",
                where=str(self._path),
                expected=" or ".join(names),
                found=" and ".join(file.name for file in found) or None,
                hint="Or one collateral.json; docs/formats/collateral.md lists the names.",
            )
        return found[0]

    def _chain(self, stem: str) -> bytes:
        file = self._one(_CHAIN_ENDINGS, f"{stem}_chain")
        content = _read(file)
        if content.lstrip().startswith(b"-----BEGIN CERTIFICATE"):
            return content
        return decode_issuer_chain(content.decode("latin-1").strip(), name=file.name)

    def _list(self, *stems: str) -> bytes:
        file = self._one(_LIST_ENDINGS, *stems)
        der = decode_revocation_list(_read(file))
        if der is None:
            raise CollateralMalformed(
                "not a revocation list", where=file.name, expected="DER, PEM or hexadecimal"
            )
        return der
