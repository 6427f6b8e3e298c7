"""What a receipt says left: one claim for each request that a reader of another record could have seen.

| record | claims |
|---|---|
| ``inference`` | one for each attempt at an upstream (``up``): its host; method, path, status, lengths, model, tokens |
| ``egress``, outcome | one: the target, where it is disclosed |
| ``egress``, intent without an outcome | one that may never have left |
| ``refusal`` of a request | one without a host: a caller saw it, no host behind us did |

A claim is *expected* if, by the receipt, a whole answer came: only those are listed when nothing explains them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from affiant.attestation.audit.records_of_others.facts import Authority, Facts, parse_authority
from affiant.attestation.records.receipt import VerifiedReceipt
from affiant.attestation.statements.gateway_config import GatewayConfig

__all__ = ["Claim", "claims_of"]

_PORTS: Final = {"https": 443, "http": 80}


@dataclass(frozen=True, slots=True)
class Claim:
    """One request that a receipt says was made.

    Args:
        at: when the receipt was signed, milliseconds since 1970: at the request's end, by the signer's clock.
        answered: whether the other side answered at all.
        expected: whether an independent record must have it too.
        undisclosed: facts that the receipt commits to and the bundle does not disclose.
    """

    receipt: str
    rh: str
    kind: str
    at: int
    authority: Authority | None
    facts: Facts
    tunnel: bool = False
    answered: bool = False
    expected: bool = False
    undisclosed: tuple[str, ...] = ()
    session: str | None = None

    @classmethod
    def of(cls, record: VerifiedReceipt, authority: Authority | None, facts: Facts, **more: Any) -> Claim:
        """A claim of ``record``."""
        at, session = record.iat * 1000, _text(record.member("agt", "ses"))
        return cls(record.jti, record.rh, record.kind, at, authority, facts, session=session, **more)


def claims_of(
    records: Sequence[VerifiedReceipt], configurations: Mapping[str, GatewayConfig]
) -> Iterator[Claim]:
    """The claims of authentic records.

    Args:
        configurations: chain of a gateway -> its configuration, where the bundle carries it: upstreams' addresses.
    """
    answered = {parent for record in records for parent in _parents(record)}
    for record in records:
        if record.kind == "inference":
            yield from _inference(record, configurations.get(record.chn))
        elif record.kind == "egress" and (record.member("ph") == "outcome" or record.jti not in answered):
            yield _egress(record)
        elif record.kind == "refusal":
            yield _refusal(record)


def _parents(record: VerifiedReceipt) -> Sequence[str]:
    named = record.member("par")
    is_outcome = record.kind == "egress" and record.member("ph") == "outcome"
    return [str(each) for each in named] if is_outcome and isinstance(named, list) else ()


def _inference(record: VerifiedReceipt, config: GatewayConfig | None) -> Iterator[Claim]:
    shown, path = record.disclosed, _text(record.member("req", "p"))
    complete = record.member("res", "end") == "complete"
    rewritten = record.member("pol", "dec") == "redact" or shown.get("req.fwd") not in (
        None,
        shown.get("req.dig"),
    )
    facts: dict[str, Any] = {
        "method": _text(record.member("req", "m")),
        "model": _text(record.member("mdl", "id")),
        "tokens_in": _number(shown.get("use.in")),
        "tokens_out": _number(shown.get("use.out")),
        "trace": _trace(record),
    }
    if complete:  # else what the caller got is not what the upstream gave
        facts |= {"status": _number(record.member("res", "st")), "received": _number(shown.get("res.len"))}
    if not rewritten:  # else fewer bytes left than came
        facts["sent"] = _number(shown.get("req.len"))
    hidden = {"sent": "req.len", "received": "res.len", "tokens_in": "use.in", "tokens_out": "use.out"}
    undisclosed = tuple(name for name, place in hidden.items() if shown.get(place) is None)
    attempts = record.member("up")
    assert isinstance(attempts, list)
    for attempt in attempts:
        authority, below = _upstream(attempt, config)
        ok = attempt["res"] == "ok"
        said = Facts(path=_below(below, path), **(facts if ok else _failed(facts)))
        yield Claim.of(
            record, authority, said, answered=ok, expected=ok and complete, undisclosed=undisclosed
        )


def _failed(facts: Mapping[str, Any]) -> dict[str, Any]:
    """An attempt that came to nothing has neither an answer nor tokens."""
    return {name: facts[name] for name in ("method", "model", "trace", "sent") if name in facts}


def _upstream(
    attempt: Mapping[str, object], config: GatewayConfig | None
) -> tuple[Authority | None, str | None]:
    """Where an attempt went, and the path below which its requests are; None: the bundle does not say."""
    known = None if config is None else next((up for up in config.upstreams if up.id == attempt["id"]), None)
    if known is None:
        return parse_authority(str(attempt["host"])), None
    parts = urlsplit(known.url)
    return parse_authority(str(attempt["host"]), default_port=_PORTS.get(parts.scheme)), parts.path.rstrip(
        "/"
    )


def _below(base: str | None, path: str | None) -> str | None:
    """The gateway's ``/v1/...`` below an upstream's own base."""
    return None if base is None or path is None else base + path.removeprefix("/v1")


def _egress(record: VerifiedReceipt) -> Claim:
    target = record.disclosed.text("act.tgt")
    method, authority, path = (None, None, None) if target is None else _target(target)
    tunnel, complete = method == "CONNECT", record.member("act", "end") == "complete"
    facts = Facts(method=method, path=None if tunnel else path, trace=_trace(record))
    hidden = () if target is not None else ("target",)
    return Claim.of(
        record, authority, facts, tunnel=tunnel, answered=complete, expected=complete, undisclosed=hidden
    )


def _target(text: str) -> tuple[str | None, Authority | None, str | None]:
    """``METHOD https://host/path``; what was cut because it was too long has no path to compare."""
    method, space, address = text.rpartition(" ")
    try:
        parts = urlsplit(address)
    except ValueError:  # an agent's own text, recorded as it was refused
        return (method if space else None), None, None
    authority = parse_authority(parts.netloc, default_port=_PORTS.get(parts.scheme))
    whole = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    return (method if space else None), authority, None if "...sha256:" in address else whole


def _refusal(record: VerifiedReceipt) -> Claim:
    facts = Facts(
        method=_text(record.member("req", "m")),
        status=_number(record.member("res", "st")),
        received=_number(record.disclosed.get("res.len")),
        trace=_trace(record),
    )
    return Claim.of(record, None, facts)


def _trace(record: VerifiedReceipt) -> tuple[str, str] | None:
    value = record.disclosed.get("trc")
    return (str(value["t"]), str(value["s"])) if isinstance(value, Mapping) else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _number(value: object) -> int | None:
    return value if isinstance(value, int) else None
