"""Reads the provisioning service's responses: each becomes an item, or an error that says what is wrong with it. Pure.

Judged here: status, type, size, and the encodings around what is signed. Bodies of signed JSON stay byte for
byte; of a revocation list the signed bytes are its DER, which a PCCS sends as hexadecimal and some caches as
PEM. Whether any of it is authentic is judged afterwards, over the whole collateral.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from email.utils import parsedate_to_datetime
from typing import Final

from affiant.attestation.quote.collateral.errors import (
    PlatformUnknown,
    RedirectRefused,
    ResponseRefused,
    ServiceUnavailable,
)
from affiant.attestation.quote.collateral.issuer_header import decode_issuer_chain
from affiant.attestation.quote.collateral.service import Question
from affiant.attestation.tdx.pki.crl_encoding import decode_revocation_list
from affiant.attestation.tdx.tcb.collateral import Collateral

__all__ = ["Answer", "Response", "assemble", "read_answer"]

_MAX_RETRY_AFTER_S: Final = 24 * 60 * 60
_GONE: Final = (404, 410)
"""Unknown FMSPC or number; a number that is no longer published (Intel PCS API v4, "Get TCB Info")."""
_LATER: Final = (408, 425, 429, 500, 502, 503, 504)


@dataclass(frozen=True, slots=True)
class Response:
    """What came back: status, headers as they stood, the whole body."""

    status: int
    headers: tuple[tuple[str, str], ...] = field(repr=False)
    body: bytes = field(repr=False)

    def header(self, name: str) -> str | None:
        """The value of ``name`` in either case; None if it is absent.

        Raises:
            ResponseRefused: it stands twice with two values.
        """
        values = {value for key, value in self.headers if key.lower() == name.lower()}
        if len(values) > 1:
            raise ResponseRefused(
                "a header stands twice", where=name, expected="one value", found=len(values)
            )
        return values.pop() if values else None


@dataclass(frozen=True, slots=True)
class Answer:
    """One item, and its issuer chain (PEM) where it has one. Nothing is verified."""

    item: str
    content: bytes = field(repr=False)
    issuer_chain: bytes | None = field(repr=False)


def assemble(answers: Mapping[str, Answer]) -> Collateral:
    """The seven items in the four ``answers``, by item name."""
    chains = {name: answers[name].issuer_chain or b"" for name in ("tcb_info", "qe_identity", "pck_crl")}
    return Collateral(
        tcb_info=answers["tcb_info"].content,
        tcb_info_issuer_chain=chains["tcb_info"],
        qe_identity=answers["qe_identity"].content,
        qe_identity_issuer_chain=chains["qe_identity"],
        root_ca_crl=answers["root_ca_crl"].content,
        pck_crl=answers["pck_crl"].content,
        pck_crl_issuer_chain=chains["pck_crl"],
    )


def read_answer(question: Question, response: Response, *, now: datetime) -> Answer:
    """The item that ``question`` asked for.

    Args:
        now: what a Retry-After date is counted from.

    Raises:
        PlatformUnknown: status 404 or 410.
        ServiceUnavailable: status 429 or of the service's own failures; carries Retry-After.
        RedirectRefused: a redirect.
        ResponseRefused: anything else that is not the item.
    """
    _judge_status(question, response, now)
    _refuse_encoding(question, response)
    if question.item.endswith("_crl"):
        content = _revocation_list(question, response)
    else:
        content = _signed_json(question, response)
    return Answer(question.item, content, _issuer_chain(question, response))


def _judge_status(question: Question, response: Response, now: datetime) -> None:
    status, where = response.status, question.title
    if status == 200:
        return
    if 300 <= status < 400:
        raise RedirectRefused(
            "the service answers with another address, and no redirect is followed",
            where=where,
            found=f"status {status} to {_shown(response.header('location'))}",
            hint="Give the final address yourself, if you trust it.",
        )
    if status in _GONE:
        raise PlatformUnknown(
            "the service has no such document",
            where=where,
            found=f"status {status} for {question.url}",
            hint="Check FMSPC, authority and evaluation number; not every FMSPC is a TDX platform.",
        )
    if status in _LATER:
        raise ServiceUnavailable(
            "the service cannot answer now",
            where=where,
            found=f"status {status}",
            retry_after_s=_retry_after(response.header("retry-after"), now),
        )
    raise ResponseRefused(
        "the service refuses the question",
        where=where,
        expected="status 200",
        found=f"status {status} for {question.url}",
    )


def _retry_after(value: str | None, now: datetime) -> int | None:
    """Seconds (RFC 9110, section 10.2.3: a number or a date), at most a day; None for anything else."""
    if value is None:
        return None
    if value.isascii() and value.isdigit():
        return min(int(value[:9]), _MAX_RETRY_AFTER_S)
    try:
        seconds = int((parsedate_to_datetime(value) - now).total_seconds())
    except (ValueError, TypeError):
        return None
    return min(max(seconds, 0), _MAX_RETRY_AFTER_S)


def _refuse_encoding(question: Question, response: Response) -> None:
    """We ask for none; what is signed is what is sent."""
    encoding = response.header("content-encoding")
    if encoding is not None and encoding.strip().lower() != "identity":
        raise ResponseRefused(
            "the body is encoded", where=question.title, expected="none asked for", found=_shown(encoding)
        )


def _signed_json(question: Question, response: Response) -> bytes:
    """The body, untouched. Its type is demanded, because a portal's page is also a body."""
    kind = _media_type(response)
    if kind != "application/json":
        raise ResponseRefused(
            "an answer of another type",
            where=question.title,
            expected="application/json",
            found=_shown(kind),
            hint="Something other than the provisioning service answers at this address.",
        )
    if not response.body.lstrip(b" \t\r\n").startswith(b"{"):
        raise ResponseRefused("the body is no JSON object", where=question.title)
    return response.body


def _revocation_list(question: Question, response: Response) -> bytes:
    """DER. Services name its type differently (a PCCS says text/html), so that its form decides."""
    der = decode_revocation_list(response.body)
    if der is None:
        raise ResponseRefused(
            "an answer of another form",
            where=question.title,
            expected="a revocation list in DER, PEM or hexadecimal",
            found=f"{len(response.body)} bytes of {_shown(_media_type(response))}",
            hint="Something other than the provisioning service answers at this address.",
        )
    return der


def _issuer_chain(question: Question, response: Response) -> bytes | None:
    if not question.chain_headers:
        return None
    found = {name: value for name in question.chain_headers if (value := response.header(name)) is not None}
    if not found:
        raise ResponseRefused(
            "the answer lacks its issuer chain",
            where=question.title,
            expected=f"header {question.chain_headers[0]}",
            hint="A cache or proxy in between drops or renames it; ask the service itself.",
        )
    chains = {decode_issuer_chain(value, name=name) for name, value in found.items()}
    if len(chains) > 1:
        raise ResponseRefused(
            "two different issuer chains", where=question.title, found=" and ".join(sorted(found))
        )
    return chains.pop()


def _media_type(response: Response) -> str | None:
    value = response.header("content-type")
    return None if value is None else value.partition(";")[0].strip().lower()


def _shown(value: str | None) -> str:
    return "none" if value is None else repr(value[:120])
