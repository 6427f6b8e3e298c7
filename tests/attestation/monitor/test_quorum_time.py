"""The times of a quorum: backed by an honest witness while fewer than the quorum lie."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from log_builder import LogBuilder, cosigner, log_signer

from affiant.attestation.log_reading.log_trust import SignedCheckpoint
from affiant.attestation.monitor.quorum_time import newest, not_after
from affiant.attestation.tlog.quorum import parse_witness_policy

LOG = LogBuilder(__import__("pathlib").Path("unused"))


def policy(k: int, n: int):  # type: ignore[no-untyped-def]
    lines = [f"log {log_signer().verifier.vkey()}"]
    lines += [f"witness w{each} {cosigner(each).verifier.vkey()}" for each in range(n)]
    lines += [f"group g {k} {' '.join(f'w{each}' for each in range(n))}", "quorum g"]
    return parse_witness_policy("\n".join(lines).encode())


def at(times: dict[str, int]) -> SignedCheckpoint:
    return SignedCheckpoint(LOG.checkpoint(), LOG.note(), times)


@given(st.integers(1, 5), st.lists(st.integers(1, 100), min_size=5, max_size=5))
def test_they_are_the_kth_largest_and_the_kth_smallest(k: int, times: list[int]) -> None:
    signed = at({f"w{number}": time for number, time in enumerate(times)})
    assert newest(signed, policy(k, 5)) == sorted(times, reverse=True)[k - 1]
    assert not_after(signed, policy(k, 5)) == sorted(times)[k - 1]


def test_without_witnesses_there_is_no_time() -> None:
    none = parse_witness_policy(f"log {log_signer().verifier.vkey()}\nquorum none\n".encode())
    assert newest(at({}), none) is None and not_after(at({}), none) is None
