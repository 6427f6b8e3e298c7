"""Makes signed orders from a bundle: which records of a session are erased, and at which level.

The receipts of the bundle are verified under its own keysets, so that what is signed names records as their signers
numbered them. Whether to believe those keysets is what ``affiant verify`` says; read its verdict before you sign.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from affiant.attestation.bundle.bundle import Bundle
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.erasure.errors import RequestFileMalformed
from affiant.attestation.erasure.orders import CONTENT_KINDS, sign_order
from affiant.attestation.erasure.request_file import Request
from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.statements.statement import KeysetStatement, parse_statement

__all__ = ["erasure_request", "hold_request", "origin_of", "session_items"]

_MAX_ITEMS: Final = 32
_MAX_BYTES: Final = 12 * 1024
"""Of one order's items: the record that carries them holds at most 16 KiB."""


def origin_of(bundle: Bundle) -> str:
    """The log that the bundle's gateway writes.

    Raises:
        RequestFileMalformed: there is none, or there are several.
    """
    statements = (parse_statement(raw) for raw in bundle.keysets.values())
    origins = {statement.log.origin for statement in statements if statement.log is not None}
    if len(origins) != 1:
        raise RequestFileMalformed("the bundle's records are not of one log", found=sorted(origins)[:4])
    return origins.pop()


def session_items(bundle: Bundle, session: str, *, level: int, basis: str) -> Sequence[Mapping[str, object]]:
    """``del`` for everything of ``session`` in ``bundle``.

    At level 2 the records that hold chain and session together stay, and of them the content alone goes.

    Raises:
        RequestFileMalformed: nothing of this session is here. AffiantError: a receipt does not verify.
    """
    items = [_item(record, session, level=level, basis=basis) for record in _of_session(bundle, session)]
    if not items:
        raise RequestFileMalformed("the bundle has no record of this session", found=session[:40])
    return items


def _of_session(bundle: Bundle, session: str) -> Iterator[VerifiedReceipt]:
    statements: dict[str, KeysetStatement] = {}
    for raw in bundle.keysets.values():
        statement = parse_statement(raw)
        statements[statement.receipt_kid] = statement
    for text in bundle.receipts:
        receipt = parse_receipt(text)
        statement_of = statements.get(receipt.split.kid)
        if statement_of is None:
            raise RequestFileMalformed("a receipt whose keyset is not in the bundle")
        record = verify_receipt(receipt, statement_of)
        own = statement_of.role == "session" and statement_of.iss.rpartition(":")[2] == session
        if (own and record.member("agt") is not None) or record.member("agt", "ses") == session:
            yield record


def _item(record: VerifiedReceipt, session: str, *, level: int, basis: str) -> Mapping[str, object]:
    number = record.member("agt", "seq")
    agt = {"ses": session} | ({"seq": number} if isinstance(number, int) else {})
    level = level if record.kind in CONTENT_KINDS else 1
    place = {"chn": record.chn, "seq": record.seq, "rh": record.rh}
    return {**place, "lvl": level, "basis": basis, "agt": agt}


def erasure_request(
    signer: Signer, items: Sequence[Mapping[str, object]], *, origin: str, made: int
) -> Request:
    """A request that names ``items``, in as many orders as records can carry them."""
    orders = []
    for part in _parts(items):
        members = {"del": part}
        orders.append({**members, "aut": sign_order(signer, "erasure", members, origin=origin, made=made)})
    return Request("erasure", origin, tuple(orders))


def _parts(items: Sequence[Mapping[str, object]]) -> Iterator[list[Mapping[str, object]]]:
    part: list[Mapping[str, object]] = []
    for item in items:
        if part and (len(part) == _MAX_ITEMS or len(canonical([*part, item])) > _MAX_BYTES):
            yield part
            part = []
        part.append(item)
    if part:
        yield part


def hold_request(
    signer: Signer, target: str, basis: str, *, origin: str, made: int, ends: str | None = None
) -> Request:
    """A request to hold ``target``, a session's id or a receipt hash; or to end the hold whose record is ``ends``."""
    members = {"tgt": target, "basis": basis} | ({} if ends is None else {"rel": ends})
    aut = sign_order(signer, "hold", members, origin=origin, made=made)
    return Request("hold", origin, ({**members, "aut": aut},))
