"""Edits that several classes of cases share: of a receipt's text, of its bytes, of a list of records."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from vectors.making.case import Case, told
from vectors.making.encoding import b64u, from_b64u
from vectors.making.faults import Fault
from vectors.making.keys import p256_key, thumbprint
from vectors.making.scripts import session

__all__ = ["WITHOUT", "as_bytes", "gateway_kid", "jws_part", "one", "opened", "swap", "tail"]

BASE = "valid/inference"


def WITHOUT(value: Any) -> Any:  # noqa: N802 - a mark, not a change
    """What stands at ``skip:``, ``withhold:`` and ``absent:``: the point being there is all that counts."""
    return value


def one(
    name: str,
    about: str,
    faults: dict[str, Fault] | None,
    refused: dict[str, str],
    *,
    base: str = BASE,
    script: Callable[..., None] = session,
    **more: Any,
) -> Case:
    """A case that departs from its base by ``faults``."""
    making = {key: more.pop(key) for key in ("platform", "logged", "disclosed") if key in more}
    return Case(name, about, told(faults, script, **making), base, refused, **more)


def gateway_kid() -> str:
    """The thumbprint of the gateway's receipt key."""
    return thumbprint(p256_key("gateway receipt"))


def jws_part(index: int, change: Callable[[str], str]) -> Fault:
    """Change one part of a sent receipt's JWS: 0 header, 1 payload, 2 signature."""

    def fault(text: str) -> str:
        jws, _, rest = text.partition("~")
        parts = jws.split(".")
        parts[index] = change(parts[index])
        return ".".join(parts) + "~" + rest

    return fault


def as_bytes(change: Callable[[bytes], bytes]) -> Callable[[str], str]:
    """The change of what a part encodes."""
    return lambda text: b64u(change(from_b64u(text)))


def swap(old: bytes, new: bytes) -> Fault:
    """Replace ``old``, which is there, once."""

    def fault(data: bytes) -> bytes:
        if old not in data:
            raise ValueError(f"not there: {old!r}")
        return data.replace(old, new, 1)

    return fault


def tail(change: Callable[[list[str]], list[str]]) -> Fault:
    """Change the disclosures of a sent receipt; its JWS stays."""

    def fault(text: str) -> str:
        jws, *disclosures = text.split("~")[:-1]
        return "~".join([jws, *change(disclosures), ""])

    return fault


def opened(text: str) -> list[Any]:
    """Salt, name and value of a disclosure."""
    value: list[Any] = json.loads(from_b64u(text))
    return value
