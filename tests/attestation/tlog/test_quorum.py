"""Witness policies: read as the specification has them; a quorum is counted once for each witness."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tlog.conftest import NOW, ORIGIN, checkpoint, cosigner, log_signer, mldsa_cosigner

from affiant.attestation.tlog.errors import (
    CheckpointMalformed,
    NoteSignatureInvalid,
    QuorumMalformed,
    QuorumMissed,
)
from affiant.attestation.tlog.note import Note, signed
from affiant.attestation.tlog.quorum import WitnessPolicy, parse_witness_policy, verify_quorum
from affiant.errors import AffiantError

LOG = log_signer().verifier.vkey()
W = [cosigner(number).verifier.vkey() for number in range(6)]
TWO_ORGANISATIONS = f"""\
# Two organisations; a majority of the first, anybody of the second.
log {LOG}
witness X1 {W[0]}
witness X2 {W[1]} https://witness.example/x2
\twitness\tX3 {W[2]}
group X 2 X1 X2 X3

witness Y1 {W[3]}
witness Y2 {W[4]}
group Y any Y1 Y2
group both all X Y
quorum both
"""


def policy(text: str = TWO_ORGANISATIONS) -> WitnessPolicy:
    return parse_witness_policy(text.encode("utf-8", "surrogateescape"))


def cosigned(*numbers: int, size: int = 5) -> Note:
    return checkpoint(size, log_signer(), *map(cosigner, numbers))


@pytest.mark.parametrize(
    ("numbers", "enough"),
    [
        ((), False),
        ((0, 1, 2), False),
        ((0, 3), False),
        ((3, 4), False),
        ((0, 1, 3), True),
        ((1, 2, 4), True),
        ((0, 1, 2, 3, 4), True),
    ],
)
def test_a_quorum_of_groups_is_counted(numbers: tuple[int, ...], enough: bool) -> None:  # noqa: FBT001 - a parameter
    note = cosigned(*numbers)
    if enough:
        found = verify_quorum(note, policy())
        assert set(found.times) == {("X1", "X2", "X3", "Y1", "Y2")[number] for number in numbers}
        assert set(found.times.values()) == {NOW}
    else:
        with pytest.raises(QuorumMissed) as refused:
            verify_quorum(note, policy())
        assert refused.value.code == "wit.quorum"


def test_strangers_count_for_nothing() -> None:
    with pytest.raises(QuorumMissed):
        verify_quorum(cosigned(0, 3, 5), policy())


def test_the_log_itself_must_have_signed_and_for_its_own_origin() -> None:
    unsigned = checkpoint(5, *map(cosigner, (0, 1, 3)))
    with pytest.raises(NoteSignatureInvalid):
        verify_quorum(unsigned, policy())
    other = checkpoint(
        5, log_signer("log.example/other"), *map(cosigner, (0, 1, 3)), origin="log.example/other"
    )
    with pytest.raises(NoteSignatureInvalid):
        verify_quorum(other, policy())
    mixed = checkpoint(5, log_signer(), *map(cosigner, (0, 1, 3)), origin="log.example/other")
    with pytest.raises(NoteSignatureInvalid):
        verify_quorum(mixed, policy())


def test_one_forged_cosignature_refuses_the_note_even_with_a_quorum() -> None:
    note = cosigned(0, 1, 3, 4)
    last = note.signatures[-1]
    forged = Note(note.text, (*note.signatures[:-1], replace(last, signature=last.signature[:-1] + b"\0")))
    with pytest.raises(NoteSignatureInvalid, match="does not hold"):
        verify_quorum(forged, policy())


def test_ml_dsa_witnesses_count_as_others_do() -> None:
    witness = mldsa_cosigner(1)
    rules = policy(f"log {LOG}\nwitness W {witness.verifier.vkey()}\nquorum W\n")
    assert verify_quorum(checkpoint(5, log_signer(), witness), rules).times == {"W": NOW}
    with pytest.raises(QuorumMissed):
        verify_quorum(checkpoint(5), rules)


def test_no_quorum_is_said_and_asks_no_witness() -> None:
    rules = policy(f"log {LOG}\nquorum none\n")
    assert rules.quorum is None
    assert verify_quorum(checkpoint(5), rules).times == {}


def test_a_note_that_is_no_checkpoint_is_refused() -> None:
    with pytest.raises(CheckpointMalformed):
        verify_quorum(signed("hello\n", log_signer()), policy())


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "without a quorum"),
        (f"log {LOG}\n", "without a quorum"),
        (TWO_ORGANISATIONS + "quorum both\n", "second quorum"),
        ("quorum X\n", "stands above"),
        (f"quorum X\nwitness X {W[0]}\n", "stands above"),
        (f"witness none {W[0]}\nquorum none\n", "is taken"),
        (f"witness X {W[0]}\nwitness X {W[1]}\nquorum X\n", "is taken"),
        (f"witness X {W[0]}\nwitness Y {W[0]}\nquorum X\n", "stands twice"),
        (f"log {LOG}\nlog {LOG}\nquorum none\n", "stands twice"),
        (f"log {W[0]}\nquorum none\n", "another kind"),
        (f"witness X {LOG}\nquorum X\n", "another kind"),
        (f"witness X {W[0]}\ngroup G 2 X\nquorum G\n", "threshold over"),
        (f"witness X {W[0]}\ngroup G 0 X\nquorum G\n", "not a threshold"),
        (f"witness X {W[0]}\ngroup G 01 X\nquorum G\n", "not a threshold"),
        (f"witness X {W[0]}\ngroup G any\nquorum G\n", "not a line"),
        (f"witness X {W[0]}\ngroup G any X X\nquorum G\n", "member already"),
        (f"witness X {W[0]}\ngroup G any X\ngroup H any X\nquorum G\n", "member already"),
        (f"witness X {W[0]}\ngroup G any none\nquorum G\n", "stands above"),
        (f"witness X {W[0]}\ngroup G any G\nquorum G\n", "stands above"),
        (f"witness X {W[0]} url more\nquorum X\n", "not a line"),
        ("witness X example+00000000+AAAA\nquorum X\n", "verifier key"),
        ("wittness X\nquorum none\n", "not a line"),
        ("quorum none\r\n", "not a witness policy"),
        ("quorum none\x00\n", "not a witness policy"),
        ("#\n" * 2000 + "quorum none\n", "too many lines"),
    ],
)
def test_what_is_no_policy_is_refused_with_its_line(text: str, says: str) -> None:
    with pytest.raises(QuorumMalformed, match=says):
        policy(text)


def test_names_are_octets_and_comments_may_hold_anything_else() -> None:
    rules = policy(f"# {'ä' * 9} \udcff\nwitness \udcff\udcfe {W[0]}\nquorum \udcff\udcfe\n")
    assert rules.satisfied({"\udcff\udcfe"})


def test_a_deep_policy_is_evaluated_without_recursion() -> None:
    lines = [f"witness g0 {W[0]}"] + [f"group g{n} any g{n - 1}" for n in range(1, 1000)] + ["quorum g999"]
    assert policy("\n".join(lines)).satisfied({"g0"})


@given(
    st.sets(st.sampled_from(["X1", "X2", "X3", "Y1", "Y2"])), st.sampled_from(["X1", "X2", "X3", "Y1", "Y2"])
)
def test_one_more_witness_never_unmakes_a_quorum(names: set[str], more: str) -> None:
    rules = policy()
    assert rules.satisfied(names | {more}) >= rules.satisfied(names)


@given(
    st.text("loggroupwitnessquorumnoneXY123 \t\n#+=/", max_size=120).map(str.encode) | st.binary(max_size=80)
)
def test_arbitrary_bytes_are_a_policy_or_are_refused(data: bytes) -> None:
    try:
        parse_witness_policy(data)
    except AffiantError as refusal:
        assert refusal.code == "quorum.malformed"


def test_the_policy_of_a_log_is_of_its_origin() -> None:
    assert [key.name for key in policy().logs] == [ORIGIN]


def of(k: int) -> WitnessPolicy:
    rows = [f"witness w{n} {W[n]}" for n in range(5)]
    return policy("\n".join([*rows, f"group g {k} w0 w1 w2 w3 w4", "quorum g", ""]))


@given(st.integers(1, 5), st.lists(st.integers(1, 100), min_size=5, max_size=5))
def test_a_quorums_times_are_the_kth_largest_and_the_kth_smallest(k: int, times: list[int]) -> None:
    said = {f"w{number}": time for number, time in enumerate(times)}
    assert of(k).not_before(said) == sorted(times, reverse=True)[k - 1]
    assert of(k).not_after(said) == sorted(times)[k - 1]


def test_fewer_than_a_quorum_back_no_time() -> None:
    assert of(3).not_before({"w0": 1, "w1": 2}) is None
    assert of(3).not_after({"w0": 1, "w1": 2}) is None


def test_without_witnesses_there_is_no_time() -> None:
    nobody = policy(f"log {LOG}\nquorum none\n")
    assert nobody.not_before({}) is None
    assert nobody.not_after({"w0": 1}) is None
