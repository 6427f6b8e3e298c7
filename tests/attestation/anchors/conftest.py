"""Authorities: OpenSSL's, whose clock is the machine's, and one of our own that says any time."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from cryptography.hazmat.primitives.serialization import Encoding
from tests.sigstore_authority.timestamps import TimestampAuthority as DatedAuthority
from tests.timestamp_authority.authority import TimestampAuthority

from affiant.attestation.signatures.timestamps.imprint import message
from affiant.attestation.signatures.timestamps.roots import TSARoot

TEXT = "log.example/affiant\n3\n" + "A" * 43 + "=\n"
AT = datetime(2026, 11, 21, 12, tzinfo=UTC)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> TimestampAuthority:
    return TimestampAuthority(tmp_path_factory.mktemp("tsa"))


@pytest.fixture(scope="session")
def dated() -> DatedAuthority:
    return DatedAuthority()


def root_of(authority: DatedAuthority, policy: str | None = None) -> TSARoot:
    return TSARoot(authority.root.public_bytes(Encoding.DER), policy)


def stamped(
    authority: DatedAuthority,
    *,
    at: datetime = AT,
    text: str = TEXT,
    before: Sequence[bytes] = (),
    **more: object,
) -> bytes:
    return authority.stamp(hashlib.sha256(message(text, before)).digest(), at=at, **more)
