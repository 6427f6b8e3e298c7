"""``docs/formats/single-bundle.md`` is enough: a reader written from it alone reads, and refuses, published bundles."""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path

import pytest
from cryptography.exceptions import InvalidSignature
from tests.attestation.vector_bundles import vector_bundle
from tests.docs import single_bundle_reader
from tests.docs.single_bundle_reader import Read, Refused, read

ROOT = Path(__file__).resolve().parents[2]
FORMATS = ROOT / "docs" / "formats"
PAGE = (FORMATS / "single-bundle.md").read_text()
VECTORS = ROOT / "attestation" / "vectors" / "receipts"
VALID = sorted((VECTORS / "valid").glob("*.affiant.json"))
EXAMPLE = FORMATS / "vectors" / "session.affiant.json"
TAMPERED = (
    "signature/flipped-bit",
    "signature/ear-key",
    "signature/header-reordered",
    "signature/high-s",
    "signature/unused-bits",
    "signature/kid-no-thumbprint",
    "signature/foreign-chain",
    "format/duplicate-member",
    "format/whitespace",
    "disclosure/value-altered",
    "disclosure/unreferenced",
    "disclosure/no-last-tilde",
    "chain/wrong-link",
    "chain/boot-linked-elsewhere",
    "chain/boot-of-another-keyset",
    "log/index-of-another-leaf",
    "log/index-beyond-the-tree",
    "log/leaf-kind",
    "log/leaf-time",
    "log/another-root",
    "log/key-id-collision",
    "peer/result-typ",
    "peer/tier-higher-than-result",
    "bundle/object-changed",
    "bundle/name-in-upper-case",
    "bundle/foreign-member",
)


def codes() -> dict[str, int]:
    """Kind -> leaf code, from the page with the table of kinds."""
    rows = re.findall(r"^\| `([a-z-]+)` \| (\d+) \|", (FORMATS / "records.md").read_text(), re.MULTILINE)
    return {kind: int(code) for kind, code in rows[:19]}


def read_file(path: Path) -> Read:
    return read(path.read_bytes(), codes())


def test_the_reader_is_written_from_the_page_alone() -> None:
    tree = ast.parse(Path(single_bundle_reader.__file__).read_text())
    imported = {
        (node.module or "").partition(".")[0] if isinstance(node, ast.ImportFrom) else alias.name
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for alias in node.names
    }
    assert imported == {"__future__", "base64", "cryptography", "dataclasses", "hashlib", "json", "typing"}


@pytest.mark.parametrize("path", [EXAMPLE, *VALID], ids=lambda path: path.name)
def test_it_reads_every_valid_bundle(path: Path) -> None:
    found = read_file(path)
    assert found.receipts
    assert {one.rh for one in found.receipts} >= found.proven.keys()


def test_it_reads_a_session_of_a_gateway_that_had_another_beside_it() -> None:
    found = read(vector_bundle("valid/lost-beside-a-neighbour"), codes())
    sessions = {one.payload["agt"]["ses"] for one in found.receipts if "agt" in one.payload}
    assert (len(sessions), found.closes) == (2, 1)


def test_it_finds_what_a_whole_session_holds() -> None:
    found = read_file(VECTORS / "valid" / "witnessed.affiant.json")
    kinds = [one.payload["kind"] for one in found.receipts]
    assert {"boot", "epoch", "session-start", "inference", "session-close", "exec", "end"} == set(kinds)
    assert kinds.count("boot") == 2
    assert sorted(found.proven.values()) == list(range(len(kinds)))
    assert [said["ear_status"] for said in found.results] == ["none"]
    assert found.closes == 1
    (inference,) = (one for one in found.receipts if one.payload["kind"] == "inference")
    assert inference.disclosed["agt.id"] == "implementer"
    assert inference.disclosed["req.dig"].startswith("sha256:")


def tampered(identifier: str) -> bytes:
    (case,) = (
        case for case in json.loads((VECTORS / "cases.json").read_text())["cases"] if case["id"] == identifier
    )
    data = (VECTORS / case["files"]["bundle"]).read_bytes()
    if "patch" not in case["files"]:
        return data
    document = json.loads(data)
    for step in json.loads((VECTORS / case["files"]["patch"]).read_text()):
        *parents, last = (part.replace("~1", "/").replace("~0", "~") for part in step["path"].split("/")[1:])
        place = document
        for part in parents:
            place = place[int(part)] if isinstance(place, list) else place[part]
        key = int(last) if isinstance(place, list) else last
        if step["op"] == "remove":
            del place[key]
        else:
            place[key] = step["value"]
    return json.dumps(document).encode()


@pytest.mark.parametrize("identifier", TAMPERED)
def test_it_refuses_what_departs_from_the_page(identifier: str) -> None:
    with pytest.raises((Refused, InvalidSignature)):
        read(tampered(identifier), codes())


def test_the_page_names_every_member_of_an_ear() -> None:
    for member in single_bundle_reader.EAR_MEMBERS:
        assert f"`{member}`" in PAGE


def test_its_links_lead_somewhere() -> None:
    for target in re.findall(r"\]\(([^)#]+)", PAGE):
        assert (FORMATS / target).exists(), target
