"""Signed notes: the published example, every flipped byte, and every form that is not one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.tlog.conftest import NOW, ORIGIN, checkpoint, cosigner, log_signer, mldsa_cosigner

from affiant.attestation.tlog.errors import CheckpointMalformed, NoteMalformed, NoteSignatureInvalid
from affiant.attestation.tlog.note import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    KeyName,
    Note,
    NoteSignature,
    key_id,
    parse_note,
    signed,
    to_base64,
    verify_note,
)
from affiant.attestation.tlog.note_keys import CosignerKey, LogKey, parse_vkey

# The example of C2SP signed-note v1.0.0.
VKEY = "example.com/foo+530d903a+AekyeRrm56hApGFkyQR4ZCbV54Id2LKaANYcrnKv3U2k"
NOTE = (
    "This is an example message.\n\n— example.com/foo "
    "Uw2QOkn8srV1yJGh2VYRlL1Tnagv1YEq6TfXppzi2ONncAlTgK7Ztg1ERYNZXsYjOBH3mFXmRKuwHjG1Yu72IneyaQM=\n"
).encode()
# The example of C2SP tlog-cosignature: a checkpoint of a log, without the log's key.
EXAMPLE_CHECKPOINT = (
    "example.com/behind-the-sofa\n20852163\nCsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=\n\n"
    "— example.com/behind-the-sofa "
    "Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=\n"
).encode()


def test_the_published_example_verifies_and_is_written_back() -> None:
    key = parse_vkey(VKEY)
    note = parse_note(NOTE)
    assert verify_note(note, [key]) == (key,)
    assert note.to_bytes() == NOTE
    assert key.vkey() == VKEY


def test_any_flipped_bit_of_a_note_is_refused() -> None:
    key = parse_vkey(VKEY)
    for at in range(len(NOTE)):
        for bit in (0x01, 0x20, 0x80):
            changed = NOTE[:at] + bytes((NOTE[at] ^ bit,)) + NOTE[at + 1 :]
            with pytest.raises((NoteMalformed, NoteSignatureInvalid)):
                verify_note(parse_note(changed), [key])


def test_lines_of_unknown_keys_are_ignored_and_known_ones_must_hold() -> None:
    log, stranger = log_signer(), log_signer("other.example", "stranger")
    note = checkpoint(5, log, stranger)
    assert verify_note(note, [log.verifier]) == (log.verifier,)
    wrong = log_signer(label="another key").verifier
    with pytest.raises(NoteSignatureInvalid, match="no known key"):
        verify_note(note, [wrong])
    forged = Note(note.text, (NoteSignature(log.verifier.key, bytes(64)), note.signatures[1]))
    with pytest.raises(NoteSignatureInvalid, match="does not hold"):
        verify_note(forged, [log.verifier, stranger.verifier])
    with pytest.raises(NoteSignatureInvalid):
        verify_note(note, [])


def test_a_signature_under_the_same_name_and_another_id_is_ignored() -> None:
    log = log_signer()
    note = checkpoint(5)
    other = NoteSignature(replace(log.verifier.key, key_id=b"\0\0\0\1"), bytes(64))
    assert verify_note(note.with_signatures([other]), [log.verifier]) == (log.verifier,)


@pytest.mark.parametrize("make", [cosigner, mldsa_cosigner], ids=["ed25519", "ml-dsa-44"])
def test_a_cosignature_binds_witness_time_origin_size_and_root(make: object) -> None:
    witness = make(1)  # type: ignore[operator]
    note = checkpoint(5, log_signer(), witness)
    assert verify_note(note, [witness.verifier]) == (witness.verifier,)
    line = note.signatures[1]
    later = (NOW + 1).to_bytes(8, "big") + line.signature[8:]
    never = bytes(8) + line.signature[8:]
    for text, signature in (
        (note.text, later),
        (note.text, never),
        (note.text, line.signature[:-1]),
        (note.text, line.signature + b"\0"),
        (checkpoint(6).text, line.signature),
        (checkpoint(5, origin="log.example/other").text, line.signature),
        ("not a checkpoint\n", line.signature),
    ):
        with pytest.raises(NoteSignatureInvalid, match="does not hold"):
            verify_note(Note(text, (replace(line, signature=signature),)), [witness.verifier])


def test_an_ml_dsa_cosignature_is_of_one_witness_by_name() -> None:
    """The message commits to the name; a second name for the same key needs its own signature."""
    witness = mldsa_cosigner(1)
    line = witness.sign(checkpoint(5).text)
    alias = replace(witness.verifier, name="witness.example/alias")
    assert alias.holds(checkpoint(5).text, line.signature) is False
    assert witness.verifier.holds(checkpoint(5).text, line.signature) is True


def test_a_log_signature_is_no_cosignature_of_the_same_key() -> None:
    log = log_signer()
    text = checkpoint(5).text
    as_witness = CosignerKey(log.name, log.verifier.public_key)
    assert as_witness.holds(text, bytes(8) + log.sign(text).signature) is False
    assert as_witness.key != log.verifier.key


def test_witnesses_sign_checkpoints_alone() -> None:
    for witness in (cosigner(1), mldsa_cosigner(1)):
        with pytest.raises(CheckpointMalformed):
            witness.sign("hello\n")
        with pytest.raises(NoteMalformed):
            replace(witness, seconds=0).sign(checkpoint(5).text)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"text\n",
        b"text\n\n",
        b"\n\n\xe2\x80\x94 a AAAAAAA=\n",
        NOTE[:-1],
        NOTE + b"\n",
        NOTE.replace(b"\n\n", b"\n"),
        NOTE.replace(b"message", b"mess\tage"),
        NOTE.replace(b"message", b"mess\xffage"),
        NOTE.replace("—".encode(), b"-"),
        NOTE.replace("— ".encode(), "—  ".encode()),
        NOTE.replace(b"aQM=", b"aQN="),
        NOTE.replace(b"aQM=", b"aQM"),
        NOTE.replace(b"foo Uw", b"foo  Uw"),
        NOTE.replace(b"/foo U", b"/f+oo U"),
        NOTE.replace(b"/foo U", "/f\u00a0oo U".encode()),
        NOTE.replace(b"/foo U", "/f\u202eoo U".encode()),
        "text\n\n— a AAAAAA==\n".encode(),
        NOTE + NOTE[NOTE.index("—".encode()) :],
        b"x" * (MAX_NOTE_BYTES + 1),
    ],
)
def test_what_is_no_note_is_refused(content: bytes) -> None:
    with pytest.raises(NoteMalformed):
        parse_note(content)


def test_as_many_signatures_as_the_format_demands_are_read_and_no_flood() -> None:
    text = checkpoint(5).text
    lines = [
        NoteSignature(KeyName(f"k{n}", n.to_bytes(4, "big")), bytes(64)) for n in range(MAX_SIGNATURES + 1)
    ]
    assert len(parse_note(Note(text, tuple(lines[:-1])).to_bytes()).signatures) == MAX_SIGNATURES
    with pytest.raises(NoteMalformed, match="too many"):
        parse_note(Note(text, tuple(lines)).to_bytes())


@pytest.mark.parametrize(
    "text",
    [
        "",
        "a+b",
        "example.com/foo+530d903b" + VKEY[VKEY.rindex("+A") :],
        VKEY.replace("530d903a", "530D903A"),
        VKEY.replace("example.com/foo", "example.com/fop"),
        VKEY.replace("example.com/foo", ""),
        VKEY.replace("+AekyeRrm", "+BekyeRrm"),
        VKEY.replace("+Aeky", "+Ae"),
        VKEY + " ",
    ],
)
def test_what_is_no_verifier_key_is_refused(text: str) -> None:
    with pytest.raises(NoteMalformed):
        parse_vkey(text)


def test_every_key_is_written_and_read_back() -> None:
    for key in (log_signer().verifier, cosigner(1).verifier, mldsa_cosigner(1).verifier):
        assert parse_vkey(key.vkey()) == key
    assert isinstance(parse_vkey(VKEY), LogKey)


@pytest.mark.parametrize(("algorithm", "size"), [(0x02, 32), (0x01, 33), (0x04, 31), (0x06, 32), (0x00, 32)])
def test_a_verifier_key_of_another_algorithm_or_size_is_refused(algorithm: int, size: int) -> None:
    """Its id is right: the key says nothing false of itself."""
    key = bytes(size)
    identifier = key_id("w.example", algorithm, key).hex()
    with pytest.raises(NoteMalformed, match="another algorithm or size"):
        parse_vkey(f"w.example+{identifier}+{to_base64(bytes((algorithm,)) + key)}")


def test_a_note_that_is_too_large_is_refused_before_it_is_read() -> None:
    with pytest.raises(NoteMalformed, match="too large"):
        parse_note(signed("x" * MAX_NOTE_BYTES + "\n", log_signer()).to_bytes())


def test_an_origin_longer_than_a_cosignature_can_say_is_not_cosigned() -> None:
    with pytest.raises(CheckpointMalformed):
        mldsa_cosigner(1).sign(checkpoint(5).text.replace(ORIGIN, "o" * 256))


def test_text_that_no_note_can_have_is_not_signed() -> None:
    for text in ("no end", "tab\there\n", ""):
        with pytest.raises(NoteMalformed):
            signed(text, log_signer())


@given(st.binary(max_size=300) | st.text(max_size=200).map(lambda text: text.encode("utf-8", "replace")))
def test_arbitrary_bytes_are_read_as_they_stand_or_refused(content: bytes) -> None:
    for data in (content, content + b"\n\n" + NOTE[NOTE.index("—".encode()) :]):
        try:
            assert parse_note(data).to_bytes() == data
        except NoteMalformed:
            pass


def test_the_published_checkpoint_reads() -> None:
    assert parse_note(EXAMPLE_CHECKPOINT).to_bytes() == EXAMPLE_CHECKPOINT
