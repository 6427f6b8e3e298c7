"""The quote's structure: versions, types and lengths. What is inside the signed region is signed as it stands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.simulated.platform.quote_format import (
    QuoteFrame,
    QuoteLayout,
    QuoteParts,
    quote_parts,
)
from fault_scenarios.bench import Bench
from fault_scenarios.changes import bench, parts
from fault_scenarios.scenario import V4, V5, Change, Refused, Scenario

__all__ = ["SCENARIOS"]

_MALFORMED: Final = Refused("quote.malformed", Stage.QUOTE)
_UNSUPPORTED: Final = Refused("quote.unsupported", Stage.QUOTE)
_NOT_TDX: Final = Refused("quote.not_tdx", Stage.QUOTE)
_NO_CHAIN: Final = Refused("quote.no_pck_chain", Stage.QUOTE)


def _framed(**fields: Any) -> Change:
    return bench(frame=QuoteFrame(**fields))


def _sizes(change: Callable[[QuoteParts], QuoteParts]) -> Change:
    return bench(reshape=change)


def _cut_to(size: int) -> Change:
    return bench(recut=lambda raw: raw[:size])


def _cut_by(size: int) -> Change:
    return bench(recut=lambda raw: raw[:-size])


def _outer_size(made: QuoteParts) -> int:
    """Length of the outer certification data as it is."""
    return 384 + 64 + 2 + len(made.qe_auth_data) + 2 + 4 + len(made.certification_data)


def _vendor(it: Bench) -> Bench:
    """Another vendor, signed like the rest of the header."""
    signer = replace(it.platform.quote_signer(), vendor_id=b"SIMULATED VENDOR")
    return replace(it, reshape=lambda made: quote_parts(made.signed[_before_body(it) :], it.layout, signer))


def _before_body(it: Bench) -> int:
    return 48 if it.layout is QuoteLayout.V4 else 54


def _certified_by(kind: int, description: str, data: bytes | None = None) -> Scenario:
    fields: dict[str, Any] = {"certification_type": kind}
    if data is not None:
        fields["certification_data"] = data
    return Scenario(f"certification-type-{kind}", description, (4,), _NO_CHAIN, parts(**fields))


def _local_report(it: Bench) -> Bench:
    """1024 bytes whose first is 0x81: what the CPU gives, before any quoting enclave has seen it."""
    return replace(it, recut=lambda _: b"\x81".ljust(1024, b"\0"))


SCENARIOS: Final = (
    Scenario(
        "quote-empty", "The quote is empty.", (1,), Refused("quote.not_a_quote", Stage.QUOTE), _cut_to(0), V4
    ),
    Scenario("quote-cut-in-header", "The quote ends within its header.", (1, 3), _MALFORMED, _cut_to(47)),
    Scenario(
        "quote-cut-in-frame", "The quote ends before its body's size.", (1, 3), _MALFORMED, _cut_to(53), V5
    ),
    Scenario("quote-cut-in-body", "The quote ends within its body.", (1, 3), _MALFORMED, _cut_to(400)),
    Scenario(
        "quote-cut-in-chain", "The quote ends within its certificate chain.", (3,), _MALFORMED, _cut_by(1)
    ),
    Scenario(
        "quote-too-large",
        "The quote's buffer is larger than any quote: 16 KiB of padding.",
        (1,),
        _MALFORMED,
        parts(tail=bytes(1 << 14)),
    ),
    Scenario(
        "tdreport",
        "A TDREPORT, which only its own CPU can check.",
        (2,),
        Refused("quote.local_report", Stage.QUOTE),
        _local_report,
        V4,
    ),
    Scenario(
        "quote-version-3", "A quote of version 3 that says TDX.", (2,), _UNSUPPORTED, _framed(version=3)
    ),
    Scenario("quote-version-6", "A quote of version 6.", (2,), _UNSUPPORTED, _framed(version=6)),
    Scenario(
        "key-type-p384", "An attestation key of type 3, ECDSA P-384.", (2,), _UNSUPPORTED, _framed(key_type=3)
    ),
    Scenario("sgx-quote", "An SGX quote.", (2,), _NOT_TDX, _framed(tee_type=0)),
    Scenario("unknown-tee", "A quote of a TEE that nobody knows.", (2,), _NOT_TDX, _framed(tee_type=0x82)),
    Scenario(
        "sgx-body", "A quote v5 with an SGX body.", (2,), _NOT_TDX, _framed(body_type=1, body_size=384), V5
    ),
    Scenario("body-type-unknown", "A body of an unknown type.", (2,), _MALFORMED, _framed(body_type=9), V5),
    Scenario(
        "body-size-of-another-type",
        "A body of type 2 that says it has one byte more.",
        (2,),
        _MALFORMED,
        _framed(body_type=2, body_size=585),
        V5,
    ),
    Scenario("other-vendor", "Another vendor's quoting enclave.", (2,), _MALFORMED, _vendor),
    Scenario(
        "auth-data-beyond-the-quote",
        "The authentication data say they are longer than the quote.",
        (3,),
        _MALFORMED,
        parts(auth_size=0xFFFFFFFF),
    ),
    Scenario(
        "auth-data-too-short",
        "The authentication data have 583 bytes.",
        (3,),
        _MALFORMED,
        parts(auth_size=583),
    ),
    Scenario("auth-data-empty", "There are no authentication data.", (3,), _MALFORMED, parts(auth_size=0)),
    Scenario(
        "outer-type-5",
        "The outer certification data say they are a PEM chain.",
        (3,),
        _MALFORMED,
        parts(outer_type=5),
    ),
    Scenario(
        "outer-size-one-more",
        "The outer certification data say they have one byte more than they have.",
        (3,),
        _MALFORMED,
        _sizes(lambda made: replace(made, outer_size=_outer_size(made) + 1)),
    ),
    Scenario(
        "outer-size-one-less",
        "The outer certification data say they have one byte less than they have.",
        (3,),
        _MALFORMED,
        _sizes(lambda made: replace(made, outer_size=_outer_size(made) - 1)),
    ),
    Scenario(
        "inner-size-one-less",
        "Behind the chain is one byte that belongs to nothing.",
        (3,),
        _MALFORMED,
        _sizes(lambda made: replace(made, certification_size=len(made.certification_data) - 1)),
    ),
    Scenario(
        "inner-size-beyond",
        "The chain says it is longer than its container.",
        (3,),
        _MALFORMED,
        parts(certification_size=0xFFFFFFFF),
    ),
    Scenario(
        "qe-auth-data-beyond",
        "The enclave's authentication data say they are longer than their container.",
        (3,),
        _MALFORMED,
        parts(qe_auth_size=0xFFFF),
    ),
    _certified_by(1, "The quote names its platform by PPID, in plain.", bytes(36)),
    _certified_by(2, "The quote names its platform by PPID, encrypted with RSA-2048.", bytes(276)),
    _certified_by(3, "The quote names its platform by PPID, encrypted with RSA-3072.", bytes(404)),
    _certified_by(4, "The quote says that it carries one certificate, not a chain."),
    _certified_by(7, "The quote carries a platform manifest."),
)
