"""Encodes the platform's protocol: one request, one response, each one canonical JSON object in one packet.

Two kinds of sockets, and no message of one is understood on the other:

========== ============================================== ===============================================
socket     request                                        reply
========== ============================================== ===============================================
platform   ``create_td`` ``image`` ``mrconfigid``         ``td_id``, and the TD's descriptor (SCM_RIGHTS)
platform   ``collateral``                                 ``collateral`` (``affiant-dcap-collateral/1``)
platform   ``root``                                       ``spki``
platform   ``boot_log`` ``image``                         ``log``
platform   ``status``                                     ``tds``, ``tds_max``
one TD's   ``report``                                     the registers
one TD's   ``extend`` ``rtmr`` ``digest``                 nothing
one TD's   ``quote`` ``report_data``                      ``quote``
one TD's   ``memory``                                     ``size``, and a sealed memory file (SCM_RIGHTS)
========== ============================================== ===============================================

A request carries ``id`` (text, chosen by the asker) and ``op``; a reply the same ``id`` and either ``ok`` or
``refused`` (``code`` and ``message``). Registers and digests are hexadecimal, other bytes base64url. There is no
message that sets a launch register of a TD that exists, and none that reads a key.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

from affiant.attestation.encoding.binary_text import from_hex
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.release.boot import Image
from affiant.attestation.simulated.platform.errors import PlatformReplyError, PlatformRequestError
from affiant.attestation.statements.evidence_source import REGISTER_SIZE, TDRegisters
from affiant.errors import AffiantError

__all__ = [
    "MAX_REPLY",
    "MAX_REQUEST",
    "CreateTD",
    "Extend",
    "GetBootLog",
    "GetCollateral",
    "GetRoot",
    "GetStatus",
    "Memory",
    "PlatformRequest",
    "Quote",
    "Report",
    "TDRequest",
    "encode_refusal",
    "encode_reply",
    "encode_request",
    "parse_platform_request",
    "parse_registers",
    "parse_reply",
    "parse_td_request",
    "registers_to_json",
]

MAX_REQUEST: Final = 2048
"""Bytes of a request, at most; the largest real one, ``quote``, is about 200."""

MAX_REPLY: Final = 1 << 16
"""Bytes of a reply, at most; the largest real one, ``collateral``, is about 16 KiB."""

_MAX_ID: Final = 64
"""Characters of an ``id``, at most."""


@dataclass(frozen=True, slots=True)
class CreateTD:
    """Launch a TD: which image, and its MRCONFIGID (48 bytes), immutable from then on."""

    image: Image
    mrconfigid: bytes


@dataclass(frozen=True, slots=True)
class GetCollateral:
    """The platform's collateral as of now."""


@dataclass(frozen=True, slots=True)
class GetRoot:
    """The public key of the platform's root."""


@dataclass(frozen=True, slots=True)
class GetBootLog:
    """The event log of a TD of this image that has only booted."""

    image: Image


@dataclass(frozen=True, slots=True)
class GetStatus:
    """How many TDs there are."""


@dataclass(frozen=True, slots=True)
class Report:
    """This TD's registers now."""


@dataclass(frozen=True, slots=True)
class Extend:
    """Extend this TD's RTMR3 (no other) by a digest of 48 bytes."""

    rtmr: int
    digest: bytes


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote of this TD over 64 bytes."""

    report_data: bytes


@dataclass(frozen=True, slots=True)
class Memory:
    """The memory that this TD was launched with."""


PlatformRequest = CreateTD | GetCollateral | GetRoot | GetBootLog | GetStatus
TDRequest = Report | Extend | Quote | Memory

_Members = Mapping[str, object]
_RequestT = TypeVar("_RequestT")


def encode_request(request: PlatformRequest | TDRequest, identifier: str) -> bytes:
    """The packet that asks ``request``."""
    return canonical({"id": identifier, **_request_members(request)})


def _request_members(request: PlatformRequest | TDRequest) -> dict[str, object]:
    match request:
        case CreateTD(image, mrconfigid):
            return {"op": "create_td", "image": image.value, "mrconfigid": mrconfigid.hex()}
        case GetCollateral():
            return {"op": "collateral"}
        case GetRoot():
            return {"op": "root"}
        case GetBootLog(image):
            return {"op": "boot_log", "image": image.value}
        case GetStatus():
            return {"op": "status"}
        case Report():
            return {"op": "report"}
        case Extend(rtmr, digest):
            return {"op": "extend", "rtmr": rtmr, "digest": digest.hex()}
        case Quote(report_data):
            return {"op": "quote", "report_data": report_data.hex()}
        case Memory():
            return {"op": "memory"}


def parse_platform_request(packet: bytes) -> tuple[str, PlatformRequest]:
    """The ``id`` and the request of a packet on the platform's own socket.

    Raises:
        PlatformRequestError, EncodingError, JSONError: anything that the table above does not list.
    """
    return _parse(packet, _PLATFORM_REQUESTS)


def parse_td_request(packet: bytes) -> tuple[str, TDRequest]:
    """The ``id`` and the request of a packet on one TD's socket.

    Raises:
        PlatformRequestError, EncodingError, JSONError: anything that the table above does not list.
    """
    return _parse(packet, _TD_REQUESTS)


_Reader = tuple[frozenset[str], Callable[[_Members], _RequestT]]

_PLATFORM_REQUESTS: Final[Mapping[str, _Reader[PlatformRequest]]] = {
    "create_td": (
        frozenset({"image", "mrconfigid"}),
        lambda members: CreateTD(_image(members), _hex(members, "mrconfigid", REGISTER_SIZE)),
    ),
    "collateral": (frozenset(), lambda _: GetCollateral()),
    "root": (frozenset(), lambda _: GetRoot()),
    "boot_log": (frozenset({"image"}), lambda members: GetBootLog(_image(members))),
    "status": (frozenset(), lambda _: GetStatus()),
}

_TD_REQUESTS: Final[Mapping[str, _Reader[TDRequest]]] = {
    "report": (frozenset(), lambda _: Report()),
    "extend": (
        frozenset({"rtmr", "digest"}),
        lambda members: Extend(_integer(members, "rtmr"), _hex(members, "digest", REGISTER_SIZE)),
    ),
    "memory": (frozenset(), lambda _: Memory()),
    "quote": (frozenset({"report_data"}), lambda members: Quote(_hex(members, "report_data", 64))),
}


def _parse(packet: bytes, table: Mapping[str, _Reader[_RequestT]]) -> tuple[str, _RequestT]:
    members = parse_object(packet, limit=MAX_REQUEST)
    identifier, operation = members.get("id"), members.get("op")
    if not isinstance(identifier, str) or not 0 < len(identifier) <= _MAX_ID:
        raise PlatformRequestError("a request without id", expected=f"1 to {_MAX_ID} characters")
    reader = table.get(operation) if isinstance(operation, str) else None
    if reader is None:
        raise PlatformRequestError("no operation of this socket", expected=" or ".join(table))
    names, read = reader
    if members.keys() != names | {"id", "op"}:
        raise PlatformRequestError(
            f"other members than {operation} has", expected=", ".join(sorted(names)) or "none"
        )
    return identifier, read(members)


def _image(members: _Members) -> Image:
    try:
        return Image(members["image"])
    except ValueError as error:
        raise PlatformRequestError("no image of this name", expected="gateway or session") from error


def _hex(members: _Members, name: str, size: int) -> bytes:
    value = members[name]
    if not isinstance(value, str):
        raise PlatformRequestError(f"{name} is no text")
    return from_hex(value, size=size)


def _integer(members: _Members, name: str) -> int:
    value = members[name]
    if not isinstance(value, int) or isinstance(value, bool):
        raise PlatformRequestError(f"{name} is no integer")
    return value


def encode_reply(identifier: str, members: Mapping[str, object]) -> bytes:
    """The packet that answers with ``members``."""
    return canonical({"id": identifier, "ok": members})


def encode_refusal(identifier: str | None, error: AffiantError) -> bytes:
    """The packet that refuses; ``identifier`` is None where the request could not be read."""
    return canonical({"id": identifier, "refused": {"code": error.code, "message": str(error)}})


def parse_reply(packet: bytes, identifier: str) -> Mapping[str, object] | tuple[str, str]:
    """The members of a reply, or the code and message of an error.

    Raises:
        PlatformReplyError: a reply to another request, or no reply at all.
    """
    members = parse_object(packet, limit=MAX_REPLY)
    if members.get("id") not in (identifier, None):
        raise PlatformReplyError(
            "a reply to another request", hint="A TD's descriptor serves one process at a time"
        )
    match members:
        case {"ok": dict() as answer, "id": str()}:
            return answer
        case {"refused": {"code": str() as code, "message": str() as message}}:
            return code, message
        case _:
            raise PlatformReplyError("neither an answer nor an error")


_REGISTERS: Final = ("mrtd", "mrconfigid", "mrowner", "mrownerconfig")


def registers_to_json(registers: TDRegisters) -> dict[str, object]:
    """The registers as members, all in hexadecimal."""
    return {
        "td_id": None if registers.td_id is None else registers.td_id.hex(),
        "td_attributes": registers.td_attributes.hex(),
        "xfam": registers.xfam.hex(),
        **{name: getattr(registers, name).hex() for name in _REGISTERS},
        **{f"rtmr{index}": value.hex() for index, value in enumerate(registers.rtmrs)},
    }


def parse_registers(members: Mapping[str, object]) -> TDRegisters:
    """The registers of a reply to ``report``.

    Raises:
        PlatformReplyError, EncodingError: a member is missing or of another size.
    """

    def value(name: str, size: int = REGISTER_SIZE) -> bytes:
        text = members.get(name)
        if not isinstance(text, str):
            raise PlatformReplyError("a register is missing", where=name)
        return from_hex(text, size=size)

    return TDRegisters(
        td_id=value("td_id", 32),
        td_attributes=value("td_attributes", 8),
        xfam=value("xfam", 8),
        mrtd=value("mrtd"),
        mrconfigid=value("mrconfigid"),
        mrowner=value("mrowner"),
        mrownerconfig=value("mrownerconfig"),
        rtmrs=(value("rtmr0"), value("rtmr1"), value("rtmr2"), value("rtmr3")),
    )
