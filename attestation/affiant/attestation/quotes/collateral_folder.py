"""A folder of collateral, as the provisioning service sends it: one file for each answer, bodies untouched.

::

    tcb_info_<fmspc>.json   or tcb_info.json        body of .../tcb?fmspc=
    tcb_info_<fmspc>_chain.*  or tcb_info_chain.*   header TCB-Info-Issuer-Chain
    qe_identity.json, qe_identity_chain.*           body and header of .../qe/identity
    pck_crl_platform.*  or pck_crl_processor.*      body of .../pckcrl?ca=
    pck_crl_platform_chain.*  (or _processor_)      header SGX-PCK-CRL-Issuer-Chain
    root_ca_crl.*  or root_ca.crl                   Intel's root revocation list

Or one ``collateral.json`` alone. Which kind of platform and which authority, the quote says: a hint that only
chooses files. Chains may stand as PEM or URL-encoded, as they come in the headers; lists as DER, PEM or
hexadecimal. No file is ever taken for another, and two for one item are refused.
"""

from __future__ import annotations

import base64
import binascii
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote_to_bytes

from affiant.attestation.quotes.collateral_file import MAX_COLLATERAL_FILE, parse_collateral_file
from affiant.attestation.tdx.certificates import parse_chain
from affiant.attestation.tdx.collateral import Collateral
from affiant.attestation.tdx.errors import CollateralMalformed
from affiant.attestation.tdx.pck import PCKCA, extension_of
from affiant.attestation.tdx.quote import TDQuote
from affiant.errors import ConfigurationError

__all__ = ["CollateralAbsent", "read_collateral"]

_CHAIN_ENDINGS: Final = (".txt", ".pem")
_LIST_ENDINGS: Final = (".crl", ".der", ".pem", ".hex")
_PEM_LIST: Final = re.compile(rb"\s*-----BEGIN X509 CRL-----\s([A-Za-z0-9+/=\s]+)-----END X509 CRL-----\s*\Z")
_HEX: Final = re.compile(rb"[0-9a-fA-F]+\Z")


class CollateralAbsent(ConfigurationError):
    """The folder lacks an item, has two files for it, or cannot be read."""

    code = "collateral.absent"


def read_collateral(path: Path, quote: TDQuote) -> Collateral:
    """The collateral at ``path``, a file or a folder, for the platform that ``quote`` names.

    Raises:
        CollateralAbsent: the folder lacks an item, or has two files for it.
        CollateralMalformed: a file cannot be read as what its name says.
        MalformedError: the quote's chain, which would say what to look for, cannot be read.
    """
    if not path.is_dir():
        return parse_collateral_file(_read(path))
    if (single := path / "collateral.json").is_file():
        return parse_collateral_file(_read(single))
    folder = _Folder(path)
    fmspc, authority = _platform_of(quote)
    tcb_info = folder.name(f"tcb_info_{fmspc}", "tcb_info", endings=(".json",))
    pck_crl = folder.name(f"pck_crl_{authority}", "pck_crl", endings=_LIST_ENDINGS)
    return Collateral(
        tcb_info=folder.body(tcb_info),
        tcb_info_issuer_chain=folder.chain(tcb_info),
        qe_identity=folder.body("qe_identity"),
        qe_identity_issuer_chain=folder.chain("qe_identity"),
        root_ca_crl=folder.revocations(folder.name("root_ca_crl", "root_ca", endings=_LIST_ENDINGS)),
        pck_crl=folder.revocations(pck_crl),
        pck_crl_issuer_chain=folder.chain(pck_crl),
    )


def _platform_of(quote: TDQuote) -> tuple[str, str]:
    """FMSPC and authority by name, as the unverified chain says."""
    leaf, *above = parse_chain(quote.authentication.pck_chain)
    processor = any(certificate.common_name == PCKCA.PROCESSOR.value for certificate in above)
    return extension_of(leaf).fmspc.hex(), "processor" if processor else "platform"


def _read(path: Path) -> bytes:
    try:
        with path.open("rb") as opened:
            return opened.read(MAX_COLLATERAL_FILE + 1)
    except OSError as error:
        raise CollateralAbsent("a file of the collateral cannot be read", where=path.name) from error


class _Folder:
    """The files of one folder by lower-case name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            self._files = {entry.name.lower(): entry for entry in path.iterdir() if entry.is_file()}
        except OSError as error:
            raise CollateralAbsent("the folder of collateral cannot be read", where=path.name) from error

    def _find(self, stems: Iterable[str], endings: Iterable[str]) -> tuple[str, Path]:
        """The one file for an item; the first stem that has any counts."""
        names = [f"{stem}{ending}" for stem in stems for ending in endings]
        for stem in stems:
            found = [self._files[name] for ending in endings if (name := f"{stem}{ending}") in self._files]
            if len(found) > 1:
                raise CollateralAbsent(
                    "two files for one item of the collateral",
                    found=" and ".join(file.name for file in found),
                )
            if found:
                return stem, found[0]
        raise CollateralAbsent(
            f"the folder {self._path.name!r} lacks an item of the collateral",
            expected=" or ".join(names),
            hint="Or one collateral.json; docs/formats/collateral.md lists the names.",
        )

    def name(self, *stems: str, endings: Iterable[str]) -> str:
        """The first of ``stems`` that there is a file of."""
        return self._find(stems, tuple(endings))[0]

    def body(self, stem: str) -> bytes:
        """A response body, untouched."""
        return _read(self._find((stem,), (".json",))[1])

    def chain(self, stem: str) -> bytes:
        """An issuer chain, PEM; decoded where it stands as in the header."""
        content = _read(self._find((f"{stem}_chain",), _CHAIN_ENDINGS)[1])
        return unquote_to_bytes(content) if content.lstrip().startswith(b"-----BEGIN%20") else content

    def revocations(self, stem: str) -> bytes:
        """A revocation list, DER."""
        file = self._find((stem,), _LIST_ENDINGS)[1]
        content = _read(file)
        if (pem := _PEM_LIST.match(content)) is not None:
            return _from_base64(pem.group(1), file.name)
        text = content.strip()
        if _HEX.match(text) is not None and len(text) % 2 == 0:
            return bytes.fromhex(text.decode("ascii"))
        return content


def _from_base64(text: bytes, where: str) -> bytes:
    try:
        return base64.b64decode(b"".join(text.split()), validate=True)
    except binascii.Error as error:
        raise CollateralMalformed("PEM block is not base64", where=where) from error
