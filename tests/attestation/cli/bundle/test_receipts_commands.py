"""``affiant receipts`` as a responder runs it: what is found, through whom, and what the store survives."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing, suppress
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.attestation.narrowed_story import NarrowedStory, digest_of
from tests.attestation.period_builder import build
from tests.attestation.story import NOW, Story, trust_bytes
from tests.attestation.vector_bundles import VECTORS, vector_bundle

from affiant.__main__ import cli
from affiant.attestation.audit.receipts.evidence_facts import EvidenceFacts
from affiant.attestation.audit.receipts.rows import BundleRow, PartyRow, ReceiptRow, Rows
from affiant.attestation.audit.receipts.store import open_store
from affiant.attestation.cli.bundle.receipts_commands import receipts
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.statements.evidence import parse_evidence
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.printable import one_line


def found(result) -> list[dict]:
    assert result.exit_code in (0, 10), result.output
    return json.loads(result.output)["found"]


def keys(rows: list[dict]) -> set[tuple[str, str]]:
    return {(row["receipt"], row["role"]) for row in rows}


def everything(story: Story) -> set[tuple[str, str]]:
    return {
        (issued.payload["jti"], issued.payload["role"])
        for issued in [*story.gateway_records, *story.session_records]
    }


def quote_of(evidence: bytes):
    return parse_quote(parse_evidence(evidence).quote).body


def test_everything_rests_on_its_gateways_platform(indexed, affiant) -> None:
    one, _ = indexed([Story(), Story()])
    rows = found(affiant("find", "--key", one.gateway_signer.kid, "--json"))
    assert keys(rows) == everything(one)
    assert all(next(each for each in row["rests_on"] if each["through"] == "gateway")["hit"] for row in rows)


def test_through_whom_can_be_asked(indexed, affiant) -> None:
    (story,) = indexed([Story()])
    by_session = found(affiant("find", "--key", story.session_signer.kid, "--of", "session", "--json"))
    without = {
        (each.payload["jti"], "gateway") for each in story.gateway_records if each.payload["kind"] == "boot"
    }
    assert keys(by_session) == everything(story) - without
    assert {each["through"] for row in by_session for each in row["rests_on"]} == {"session"}
    assert affiant("find", "--key", story.session_signer.kid, "--of", "gateway").exit_code == 0


def test_measurements_status_and_platform_come_from_the_appraised_quotes(indexed, affiant) -> None:
    (story,) = indexed([Story()])
    body = quote_of(story.gateway_evidence)
    (row,) = found(affiant("find", "--kind", "inference", "--json"))
    gateway, session = row["rests_on"]
    assert (gateway["evidence"], gateway["tcb_status"]) == ("appraised", "UpToDate")
    assert (gateway["mrseam"], gateway["mrtd"]) == (body.mrseam.hex(), body.mrtd.hex())
    assert session["kid"] == story.session_signer.kid
    for option in ("mrseam", "mrtd", "fmspc", "ppid"):
        same = affiant("find", f"--{option}", gateway[option].upper(), "--kind", "inference", "--json")
        assert keys(found(same)) == keys([row])
        other = "0" * (len(gateway[option]) - 1) + "1"
        assert affiant("find", f"--{option}", other).exit_code == 0


@pytest.mark.parametrize(
    "arguments",
    [
        ["--kind", "inference", "--kind", "refusal"],
        ["--model", "affiant-dev-echo"],
        ["--since", "2026-11-21T12:00:00Z", "--until", "2026-11-21T13:00:00Z"],
        ["--tcb-status", "OutOfDate", "--tcb-status", "UpToDate"],
        ["--profile", "code_implementer"],
    ],
)
def test_conditions_find_and_exit_with_10(indexed, affiant, arguments: list[str]) -> None:
    indexed([Story()])
    assert affiant("find", *arguments).exit_code == 10
    assert affiant("find", *arguments, "--until", "2026-11-21T12:00:00Z", *(["--kind", "end"])).exit_code == 0


def test_conditions_are_all_of_them_and_values_any_of_them(indexed, affiant) -> None:
    one, other = indexed([Story(), Story()])
    kinds = ["--kind", "inference", "--kind", "secret"]
    both = ["--session", one.session, "--session", other.session]
    assert affiant("find", *both, *kinds, "--count").output == "4\n"
    assert affiant("find", "--session", one.session, *kinds, "--count").output == "2\n"
    assert (
        affiant("find", "--session", one.session, "--key", other.session_signer.kid, "--count").output
        == "0\n"
    )


def test_conditions_about_evidence_hold_of_one_signer_together(indexed, affiant) -> None:
    """The gateway's key and the session's image in one query: no signer has both."""
    (story,) = indexed([Story()])
    keyset = ["--keyset", story.session_statement.keyset_digest]
    assert affiant("find", *keyset).exit_code == 10
    assert affiant("find", *keyset, "--key", story.gateway_signer.kid).exit_code == 0


def test_a_hidden_profile_id_is_found_only_where_it_is_disclosed(indexed, affiant) -> None:
    (story,) = indexed([Story()])
    by_id = found(affiant("find", "--profile", "code_implementer", "--json"))
    assert {row["kind"] for row in by_id} == {"session-start"}
    by_digest = found(affiant("find", "--profile", story.policy_digest, "--json"))
    assert len(by_digest) > len(by_id)
    searched = json.loads(affiant("find", "--profile", "code_implementer", "--json").output)["searched"]
    assert searched["profile_id_disclosed"] == 1


def test_a_record_is_found_by_the_profile_of_its_epoch(indexed, affiant) -> None:
    """Also one that names none itself: the close of a narrowed session is of its last profile."""
    (story,) = indexed([NarrowedStory(count=1)])
    kinds = []
    for digest in (story.policy_digest, digest_of(story.policies[0])):
        rows = found(affiant("find", "--profile", digest, "--json"))
        assert {row["rests_on"][-1]["evidence"] for row in rows} == {"appraised"}
        kinds.append({row["kind"] for row in rows})
    assert "session-start" in kinds[0] - kinds[1]
    assert kinds[1] == {"policy", "inference", "end", "session-close"}


def test_each_row_states_the_verdict_when_indexed(indexed, affiant) -> None:
    indexed([Story()])
    (row,) = found(affiant("find", "--kind", "inference", "--json"))
    bundle = row["bundle"]
    assert (bundle["tier"], bundle["level"], bundle["simulated"]) == ("none", "L2", True)
    assert bundle["digest"].startswith("sha256:")
    assert bundle["trust"].startswith("sha256:")
    text = affiant("find", "--kind", "inference").output
    assert {("tier", "none"), ("simulated", "yes")} <= {tuple(line.split()) for line in text.splitlines()}
    assert text.splitlines()[-1].startswith("Each receipt is listed as it was judged when")


def test_ndjson_prints_one_record_a_line(indexed, affiant) -> None:
    indexed([Story()])
    lines = affiant("find", "--kind", "inference", "--kind", "egress", "--ndjson").output.splitlines()
    assert [json.loads(line)["kind"] for line in lines] == ["inference", "egress"]


# -- evidence that is less than appraised ----------------------------------------------------------------------


def indexed_as(story: Story, affiant, tmp_path: Path) -> dict[str, dict]:
    (tmp_path / "it.affiant.json").write_bytes(story.bytes())
    assert affiant("index", str(tmp_path / "it.affiant.json")).exit_code == 0
    rows = found(affiant("find", "--kind", "inference", "--json"))
    return {each["through"]: each for row in rows for each in row["rests_on"]}


def test_an_image_that_is_not_accepted_is_verified_and_no_more(affiant, tmp_path: Path) -> None:
    signers = indexed_as(Story(session_mrtd=bytes(48)), affiant, tmp_path)
    assert (signers["session"]["evidence"], signers["session"]["mrtd"]) == ("verified", "00" * 48)
    assert signers["session"]["refusal"] == "tee.appraisal"
    (row,) = found(affiant("find", "--mrtd", "00" * 48, "--kind", "inference", "--json"))
    assert row["bundle"]["tier"] == "contraindicated"


def test_a_quote_that_does_not_bind_its_key_is_claimed(affiant, tmp_path: Path) -> None:
    signers = indexed_as(Story(session_report_data=lambda _: bytes(64)), affiant, tmp_path)
    session = signers["session"]
    assert (session["evidence"], session["refusal"], session["tcb_status"]) == (
        "claimed",
        "key.unbound",
        None,
    )


@pytest.mark.parametrize(
    ("case", "evidence", "refusal", "status"),
    [
        ("platform/tcb-out-of-date", "verified", "tee.appraisal", "OutOfDate"),
        ("platform/tcb-revoked", "authentic", "tcb.revoked", "Revoked"),
        ("platform/pck-revoked", "claimed", "cert.revoked", None),
        ("platform/tcb-forged", "claimed", "collateral.signature", None),
        ("platform/tcb-expired", "claimed", "collateral.expired", None),
        ("valid/inference", "appraised", None, "UpToDate"),
    ],
)
def test_a_platform_is_said_to_be_no_better_than_it_was_judged(
    tmp_path: Path, case: str, evidence: str, refusal: str | None, status: str | None
) -> None:
    (tmp_path / "it.affiant.json").write_bytes(vector_bundle(case))
    store = ["--store", str(tmp_path / "s.sqlite")]
    judged = ["--trust", str(VECTORS / "trust.json"), "--at", "2026-11-21T12:30:00Z"]
    assert CliRunner().invoke(receipts, ["index", *store, *judged, str(tmp_path)]).exit_code == 0
    rows = found(CliRunner().invoke(receipts, ["find", *store, "--kind", "inference", "--json"]))
    signers = [each for row in rows for each in row["rests_on"]]
    worst = {(each["evidence"], each["refusal"], each["tcb_status"]) for each in signers}
    assert (evidence, refusal, status) in worst
    if status is not None:
        asked = CliRunner().invoke(receipts, ["find", *store, "--tcb-status", status, "--kind", "inference"])
        assert asked.exit_code == 10


def test_advisories_of_the_signers_are_found(tmp_path: Path) -> None:
    facts = EvidenceFacts("appraised", None, "OutOfDate", frozenset({"INTEL-SA-00837", "INTEL-SA-00960"}))
    bundle = BundleRow(
        "sha256:1", "sha256:2", "it", "2026-11-21T12:00:00Z", "b", "warning", "L4", False, 10, ""
    )
    rows = Rows(
        bundle,
        (
            PartyRow("gateway", "g" * 43, "k" * 43, facts),
            PartyRow("session", "s" * 43, None, EvidenceFacts()),
        ),
        (
            ReceiptRow(
                "r" * 22, "h" * 43, "inference", "gateway", 1, None, None, None, "m", "g" * 43, "s" * 43
            ),
        ),
    )
    with open_store(tmp_path / "s.sqlite", make=True) as store:
        assert (store.add(rows), store.add(rows)) == (True, False)
    for advisory, code in (("INTEL-SA-00837", 10), ("INTEL-SA-00001", 0)):
        arguments = ["find", "--store", str(tmp_path / "s.sqlite"), "--advisory", advisory]
        assert CliRunner().invoke(receipts, arguments).exit_code == code
        assert CliRunner().invoke(receipts, [*arguments, "--of", "session"]).exit_code == 0
    (row,) = found(CliRunner().invoke(receipts, [*arguments[:-1], "INTEL-SA-00960", "--json"]))
    assert row["rests_on"][0]["advisories"] == ["INTEL-SA-00837", "INTEL-SA-00960"]


def test_evidence_that_is_not_in_the_bundle_is_none(affiant, tmp_path: Path) -> None:
    story = Story()
    document = json.loads(story.bytes())
    document["evidence"] = {}
    (tmp_path / "bare.affiant.json").write_text(json.dumps(document))
    assert affiant("index", str(tmp_path / "bare.affiant.json")).exit_code == 0
    (row,) = found(affiant("find", "--kind", "inference", "--json"))
    assert {each["evidence"] for each in row["rests_on"]} == {"none"}
    searched = json.loads(affiant("find", "--kind", "end", "--json").output)["searched"]
    assert (searched["signers"], searched["signers_unproven"]) == (2, 2)


# -- the store -------------------------------------------------------------------------------------------------


def test_what_is_there_stays_as_it_was(affiant, tmp_path: Path) -> None:
    path = tmp_path / "a.affiant.json"
    path.write_bytes(Story().bytes())
    assert "indexed 1, known 0" in affiant("index", str(path)).output
    before = affiant("find", "--since", "1970-01-01T00:00:00Z", "--count").output
    again = affiant("index", str(path), str(path))
    assert (again.exit_code, "indexed 0, known 1" in again.output) == (0, True)
    assert affiant("find", "--since", "1970-01-01T00:00:00Z", "--count").output == before


def test_another_trust_file_is_another_verdict_beside_the_first(affiant, tmp_path: Path) -> None:
    path = tmp_path / "a.affiant.json"
    path.write_bytes(Story().bytes())
    affiant("index", str(path))
    (tmp_path / "trust.json").write_bytes(trust_bytes(profiles=[{"value": "sha384:" + "0" * 96}]))
    affiant("index", str(path))
    rows = found(affiant("find", "--kind", "inference", "--json"))
    assert {row["bundle"]["tier"] for row in rows} == {"none", "contraindicated"}
    assert affiant("find", "--kind", "inference", "--count").output == "1\n"


def test_a_bundle_that_is_not_authentic_is_refused_and_the_others_go_on(affiant, tmp_path: Path) -> None:
    good, bad, none = (tmp_path / f"{name}.affiant.json" for name in ("good", "bad", "none"))
    good.write_bytes(Story().bytes())
    document = json.loads(Story().bytes())
    text = document["receipts"][3]["sdjwt"]
    at = text.index(".") + 50
    document["receipts"][3]["sdjwt"] = text[:at] + ("A" if text[at] != "A" else "B") + text[at + 1 :]
    bad.write_text(json.dumps(document))
    none.write_text("{}")
    result = affiant("index", str(bad), str(none), str(good), "--json")
    document = json.loads(result.output)
    assert result.exit_code == 1
    assert document["counts"] == {"indexed": 1, "known": 0, "refused": 2}
    assert document["bundles"][0]["refused"]["found"].startswith("[sig.")
    again = affiant("index", str(bad), str(good))
    assert [line[:16] for line in again.stderr.splitlines()] == ["affiant: refused"]
    assert len(found(affiant("find", "--kind", "inference", "--json"))) == 1


def test_what_is_published_as_valid_is_indexed_and_what_is_no_bundle_is_refused(tmp_path: Path) -> None:
    store = ("--store", str(tmp_path / "v.sqlite"), "--trust", str(VECTORS / "trust.json"))
    folders = (str(VECTORS / "valid"), str(VECTORS / "whole"))
    result = CliRunner().invoke(
        receipts, ["index", *store, "--at", "2026-11-21T12:30:00Z", "--json", *folders]
    )
    ends = {(Path(each["path"]).parent.name, each["end"]) for each in json.loads(result.output)["bundles"]}
    assert ends == {("valid", "indexed"), ("whole", "refused")}
    assert affiant_help("index") and affiant_help("find")


def affiant_help(command: str) -> bool:
    return "Exit codes" in CliRunner().invoke(cli, ["receipts", command, "--help"]).output


def test_a_period_is_indexed_under_its_own_verdict(affiant, tmp_path: Path) -> None:
    story = Story().tell()
    path = build(tmp_path, story)
    assert affiant("index", str(path)).exit_code == 0
    rows = found(affiant("find", "--key", story.gateway_signer.kid, "--json"))
    assert keys(rows) == everything(story)
    assert {each["evidence"] for row in rows for each in row["rests_on"]} == {"appraised"}
    assert {row["bundle"]["digest"] for row in rows} == {sha256_name(path.read_bytes())}
    broken = bytearray(path.read_bytes())
    broken[len(broken) // 2] ^= 1
    (tmp_path / "broken.affiant.zip").write_bytes(broken)
    result = affiant("index", str(tmp_path / "broken.affiant.zip"))
    assert "contraindicated" in result.output or "refused 1" in result.output


def test_what_is_no_store_is_neither_read_nor_written(affiant, tmp_path: Path) -> None:
    store = tmp_path / "receipts.sqlite"
    bundle = tmp_path / "a.affiant.json"
    bundle.write_bytes(Story().bytes())
    store.write_bytes(b"something of the user's")
    for result in (affiant("index", str(bundle)), affiant("find", "--kind", "end")):
        assert (result.exit_code, "[receipt_store.unusable]" in result.output) == (1, True)
    assert store.read_bytes() == b"something of the user's"
    store.unlink()
    with sqlite3.connect(store) as other:
        other.execute("CREATE TABLE mine (x)")
    other.close()
    assert affiant("index", str(bundle)).exit_code == 1
    store.unlink()
    assert affiant("find", "--kind", "end").exit_code == 2
    assert not store.exists()


def test_the_store_is_its_owners_alone(indexed, tmp_path: Path) -> None:
    indexed([Story()])
    assert (tmp_path / "receipts.sqlite").stat().st_mode & 0o077 == 0


def kept(store: Path) -> int:
    """Bundles in the store."""
    with (
        suppress(sqlite3.OperationalError),
        closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as read,
    ):
        return read.execute("SELECT count(*) FROM bundles").fetchone()[0]
    return 0


def test_a_killed_index_has_whole_bundles_and_goes_on(affiant, tmp_path: Path) -> None:
    """SIGKILL while bundles are written: each is there whole or not at all."""
    folder = tmp_path / "bundles"
    folder.mkdir()
    data = json.loads(Story().bytes())
    for number in range(12):  # another file each, of the same receipts
        (folder / f"{number}.affiant.json").write_text(json.dumps(data, indent=number))
    store = tmp_path / "receipts.sqlite"
    arguments = [
        "receipts",
        "index",
        "--store",
        str(store),
        "--trust",
        str(tmp_path / "trust.json"),
        "--at",
        f"{NOW:%Y-%m-%dT%H:%M:%SZ}",
    ]
    process = subprocess.Popen(
        [sys.executable, "-m", "affiant.__main__", *arguments, str(folder)],
        stdout=subprocess.DEVNULL,
        env={**os.environ, "PYTHONPATH": "attestation"},
        cwd=Path(__file__).resolve().parents[4],
    )
    while not kept(store):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait(timeout=30)
    each = len(data["receipts"])
    with sqlite3.connect(store) as connection:
        ((bundles,),) = connection.execute("SELECT count(*) FROM bundles")
        rows = connection.execute("SELECT count(*) FROM receipts GROUP BY bundle").fetchall()
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    connection.close()
    assert 0 < bundles < 12
    assert rows == [(each,)] * bundles
    result = affiant("index", str(folder))
    assert f"indexed {12 - bundles}, known {bundles}, refused 0" in result.output


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--tcb-status", "Fine"],
        ["--tcb-status", "uptodate"],
        ["--mrseam", "00"],
        ["--fmspc", "zz" * 6],
        ["--advisory", "CVE-2026-1"],
        ["--kind", "everything"],
        ["--profile", "sha384:00"],
        ["--key", "' OR 1=1 --"],
        ["--of", "session", "--kind", "end"],
        ["--since", "yesterday"],
        ["--json", "--ndjson", "--kind", "end"],
    ],
)
def test_a_condition_that_nothing_could_fulfil_is_a_mistake_not_an_answer(
    indexed, affiant, arguments: list[str]
) -> None:
    indexed([Story()])
    assert affiant("find", *arguments).exit_code == 2


def test_hostile_values_stay_text(indexed, affiant) -> None:
    """A model id is an agent's: it is bound in queries and escaped in output."""
    hostile = "\u202e'; DROP TABLE receipts; --"

    def alter(step: str, members: dict) -> dict:
        return members | {"mdl": {"id": hostile}} if step == "inference" else members

    indexed([Story(alter=alter)])
    result = affiant("find", "--model", hostile)
    assert result.exit_code == 10
    assert "\u202e" not in result.output
    assert one_line(hostile) in result.output
