"""Event logs made by hand, so that each fault can be had on demand."""

from __future__ import annotations

import hashlib
import json
import struct
from typing import Any

SHA384 = 0x000C


def sha384(data: bytes) -> bytes:
    return hashlib.sha384(data).digest()


def spec_id(algorithms: tuple[tuple[int, int], ...] = ((SHA384, 48),), vendor: bytes = b"") -> bytes:
    data = b"Spec ID Event03\0" + struct.pack("<IBBBB", 0, 0, 2, 0, 2) + struct.pack("<I", len(algorithms))
    data += b"".join(struct.pack("<HH", *algorithm) for algorithm in algorithms)
    data += bytes((len(vendor),)) + vendor
    return struct.pack("<II20sI", 1, 3, bytes(20), len(data)) + data


def event(
    index: int, number: int, content: bytes, digest: bytes | None = None, algorithm: int = SHA384
) -> bytes:
    digest = sha384(content) if digest is None else digest
    return (
        struct.pack("<IIIH", index, number, 1, algorithm) + digest + struct.pack("<I", len(content)) + content
    )


def ccel(*events: bytes, padding: bytes = b"\xff" * 64) -> bytes:
    return spec_id() + b"".join(events) + padding


def variable(name: str, data: bytes) -> bytes:
    return bytes(16) + struct.pack("<QQ", len(name), len(data)) + name.encode("utf-16-le") + data


def runtime(name: str, payload: bytes = b"", **changes: Any) -> dict[str, Any]:
    digest = sha384((0x08000001).to_bytes(4, "little") + b":" + name.encode() + b":" + payload)
    return {
        "imr": 3,
        "event_type": 0x08000001,
        "digest": digest.hex(),
        "event": name,
        "event_payload": payload.hex(),
        **changes,
    }


def tcg(imr: int, number: int, content: bytes, digest: bytes | None = None) -> dict[str, Any]:
    digest = sha384(content) if digest is None else digest
    return {
        "imr": imr,
        "event_type": number,
        "digest": digest.hex(),
        "event": "",
        "event_payload": content.hex(),
    }


def array(*entries: dict[str, Any]) -> bytes:
    return json.dumps(list(entries)).encode()


def extend_all(*digests: bytes) -> bytes:
    register = bytes(48)
    for digest in digests:
        register = sha384(register + digest)
    return register
