"""The statement: one file, said twice, in one form; everything else is refused with a stable code."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.signatures.sigstore.conftest import POLICY, STATEMENT
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.signatures.sigstore.errors import SettingsInvalid, StatementMalformed
from affiant.attestation.signatures.sigstore.statement import (
    MAX_CONTENT,
    MAX_STATEMENT,
    FileKind,
    SignedFile,
    file_statement,
    parse_file_statement,
)
from affiant.errors import AffiantError


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    document = json.loads(STATEMENT)
    change(document)
    return json.dumps(document).encode()


def test_what_was_written_is_read_whatever_its_layout() -> None:
    assert parse_file_statement(STATEMENT) == POLICY
    assert parse_file_statement(json.dumps(json.loads(STATEMENT), indent=4).encode()) == POLICY


def test_the_subject_is_what_sha256sum_prints() -> None:
    (subject,) = json.loads(STATEMENT)["subject"]
    assert subject == {
        "name": "appraisal.yaml",
        "digest": {"sha256": hashlib.sha256(POLICY.content).hexdigest()},
    }


def test_the_largest_file_fits_into_the_largest_statement() -> None:
    file = SignedFile("a" * 128, FileKind.REFERENCE_VALUES, b"\xff" * MAX_CONTENT)
    statement = file_statement(file)
    assert len(statement) <= MAX_STATEMENT
    assert parse_file_statement(statement) == file


@pytest.mark.parametrize(
    "name", ["", ".hidden", "-option", "a/b", "a b", "a\n", "a" * 129, "..", "\u202egnp"]
)
def test_a_name_that_could_be_misread_is_refused(name: str) -> None:
    with pytest.raises(SettingsInvalid):
        SignedFile(name, FileKind.APPRAISAL_POLICY, b"x")
    with pytest.raises(StatementMalformed):
        parse_file_statement(changed(lambda d: d["subject"][0].update(name=name)))


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(_type="https://in-toto.io/Statement/v0.1"),
        lambda d: d.update(predicateType="tag:affiant.dev,2026:publication/2"),
        lambda d: d.update(predicateType="https://slsa.dev/provenance/v1"),
        lambda d: d.update(predicateType=["tag:affiant.dev,2026:publication/1"]),
        lambda d: d.update(more=1),
        lambda d: d.pop("subject"),
        lambda d: d.update(subject=[]),
        lambda d: d["subject"].append({"name": "b.yaml", "digest": {"sha256": "00" * 32}}),
        lambda d: d["subject"].append(d["subject"][0]),
        lambda d: d["subject"][0].update(uri="https://vendor.example"),
        lambda d: d["subject"][0]["digest"].update(sha512="00" * 64),
        lambda d: d["subject"][0]["digest"].update(sha256=d["subject"][0]["digest"]["sha256"].upper()),
        lambda d: d["subject"][0].update(name=None),
        lambda d: d["predicate"].update(kind="affiant-trust/1"),
        lambda d: d["predicate"].update(kind=None),
        lambda d: d["predicate"].update(content=d["predicate"]["content"] + "="),
        lambda d: d["predicate"].update(content=5),
        lambda d: d["predicate"].update(note="trust me"),
        lambda d: d.update(predicate=[]),
    ],
)
def test_any_other_form_is_refused(change: Callable[[dict[str, Any]], object]) -> None:
    with pytest.raises(StatementMalformed) as refused:
        parse_file_statement(changed(change))
    assert refused.value.code == "published.statement"


def test_content_and_digest_that_differ_are_refused() -> None:
    other = b64u(POLICY.content + b"\n")
    with raises_code("published.content") as refused:
        parse_file_statement(changed(lambda d: d["predicate"].update(content=other)))
    assert refused.value.code == "published.content"
    with raises_code("published.content"):
        parse_file_statement(changed(lambda d: d["subject"][0]["digest"].update(sha256="00" * 32)))


@pytest.mark.parametrize(
    "statement",
    [
        b"",
        b"[]",
        b"\xff",
        STATEMENT[:-1] + b',"predicate":{}}',
        STATEMENT.replace(b'"kind":', b'"kind":"affiant-reference-values/1","kind":'),
        b"[" * 100_000,
        STATEMENT + b" " * MAX_STATEMENT,
    ],
)
def test_what_is_no_strict_json_is_refused(statement: bytes) -> None:
    with pytest.raises(StatementMalformed):
        parse_file_statement(statement)


@given(position=st.integers(0, len(STATEMENT) - 1), byte=st.integers(0, 255))
def test_no_changed_byte_changes_the_file(position: int, byte: int) -> None:
    statement = STATEMENT[:position] + bytes([byte]) + STATEMENT[position + 1 :]
    try:
        found = parse_file_statement(statement)
    except AffiantError:
        return
    assert (found.content, found.kind) == (POLICY.content, POLICY.kind)
