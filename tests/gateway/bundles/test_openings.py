"""What is sealed to a tenant is put into an export for whoever has the key, and nothing else; the rest is counted."""

from __future__ import annotations

import json
import shutil
import zipfile
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.attestation.sealed_before import seal_before
from tests.attestation.verifier_js.as_periods import period_pinning_its_log, python_says_of_period
from tests.attestation.verifier_js.conftest import Question, ask
from tests.attestation.verifier_js.test_agreement import disagreements
from tests.gateway.bundles.test_export import Stop, stopping_at
from tests.gateway.erasure.test_erasing import AUTHORITY, erase, serving
from tests.gateway.erasure.test_erasing import Told as ToldSession
from tests.gateway.session_client import SessionClient

from affiant.__main__ import cli
from affiant.attestation.bundle.period.archive_reader import PeriodBundle
from affiant.attestation.bundle.period.layout import MANIFEST
from affiant.attestation.bundle.period.writer import write_archive
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.records.receipt import receipt_hash
from affiant.attestation.records.sealed_disclosures import recipient
from affiant.attestation.records.sealed_disclosures_key import disclosure_key_file
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.files.opened_disclosures import Opener, Outcome
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.bundles import export as export_module
from affiant.gateway.bundles.export import Asked, Exported, export_period
from affiant.gateway.bundles.period_store import open_store
from affiant.gateway.store.entries import OpeningEntry, decode_entry
from affiant.gateway.store.journal import Place
from affiant.gateway.store.journal_erasing import erase_entries
from affiant.gateway.store.journal_format import scan
from affiant.gateway.wire.errors import JournalMalformed
from affiant.sandbox.session_state.bundle_out import open_counted, parse_sealed_bundle

OURS, THEIRS = X25519PrivateKey.generate(), X25519PrivateKey.generate()
QUESTION = "a secret question"
BODY = json.dumps(
    {"model": "affiant-dev-echo", "stream": False, "messages": [{"role": "user", "content": QUESTION}]}
).encode()


@dataclass
class Told:
    """A store with a session of ours, one of another tenant, and one whose starter named no key."""

    store: Path
    trust: bytes
    ours: str
    theirs: str
    erased: str
    """Receipt hash of ours, of which the content was erased by order."""
    unfit: str
    """Receipt hash of ours, for which a supervisor sealed what it does not commit to."""
    answer: dict
    """Our session's bundle, and what is sealed beside it."""


def served(session: SessionClient) -> SessionClient:
    session.say(QUESTION)
    session.say("another one")
    return session


def ended(session: SessionClient) -> None:
    session.submit(session.end_record())
    session.close()


@pytest.fixture(scope="module")
def told(platform: PlatformClient, tmp_path_factory: pytest.TempPathFactory) -> Told:
    store = tmp_path_factory.mktemp("openings") / "store"
    with serving(platform, store) as inside:
        ours, theirs, nobodys = (
            served(SessionClient.start(inside, platform, openings=key)) for key in (OURS, THEIRS, None)
        )
        wrong = ours.exec_record()
        ours.submit(wrong, sealed=seal_before(("bm8",), to=recipient(OURS), rh=wrong.rh))
        for session in (ours, theirs, nobodys):
            ended(session)
        inside.run(inside.service.bundles.log.include())
        gone = ToldSession(ours.id, OURS, ours.bundle()).items(1, "inference")[1:]
        erase(inside, gone)
        trust = simulated_trust_file(
            inside.service.admissions.appraiser.reference.raw,
            datetime.now(UTC),
            gateway_configs=[inside.service.config.digest],
            erasure_authorities=[AUTHORITY.public_key],
        )
        answer = json.loads(inside.run(inside.service.bundles.of_session(ours.id)))
    return Told(store, trust, ours.id, theirs.id, gone[0]["rh"], wrong.rh, answer)


def exported(
    told: Told, place: Path, *keys: X25519PrivateKey, sessions: tuple[str, ...] | None = None
) -> Exported:
    return export_period(open_store(told.store), Asked(None, None, sessions, keys), place, exporter="test")


def judged(path: Path, told: Told, **more: object) -> Verdict:
    at = datetime.now(UTC) + timedelta(minutes=5)
    return verify_period(
        path, parse_trust_file(told.trust), verifiers=STANDARD_VERIFIERS, at=at, build="test", **more
    )


def refused(verdict: Verdict) -> dict[str, str | None]:
    return {check.code: check.reason for check in verdict.checks if check.state is State.REFUSED}


def disclosed(path: Path) -> dict[str, int]:
    """Receipt hash -> how many disclosures stand behind the receipt; of those that have one."""
    with PeriodBundle(path) as bundle:
        found = [text.split("~") for text in bundle.receipts()]
    return {receipt_hash(parts[0]): len(parts) - 2 for parts in found if len(parts) > 2}


def test_ours_are_opened_and_all_others_are_counted(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "x.affiant.zip"
    done = exported(told, place, OURS)
    assert done.opened is not None
    counts, found = dict(done.opened), disclosed(place)
    assert counts[Outcome.OPENED] == len(found) == 3, "start, answer, close"
    assert (counts[Outcome.ERASED], counts[Outcome.UNFIT]) == (1, 1)
    assert counts[Outcome.OTHER_KEY] >= 3, "the other tenant's"
    assert counts[Outcome.ABSENT] >= 3, "of the session whose starter named no key"
    assert told.erased not in found and told.unfit not in found
    with PeriodBundle(place) as bundle:
        texts = list(bundle.receipts())
    payloads = {
        receipt_hash(text.partition("~")[0]): json.loads(from_b64u(text.split(".")[1])) for text in texts
    }
    owners = {payloads[rh]["agt"]["ses"] for rh in found if "agt" in payloads[rh]}
    assert owners == {told.ours}


def test_without_its_sessions_key_nothing_that_the_gateway_sealed_opens(told: Told, tmp_path: Path) -> None:
    """The key is an entry of its own: erased, it takes all of its session, and nothing of another one."""
    store = tmp_path / "store"
    shutil.copytree(told.store, store)
    erase_entries(store, (place for place, entry in _openings(store) if _is_key_of(entry, told.ours)))
    place = tmp_path / "x.affiant.zip"
    done = export_period(open_store(store), Asked(None, None, None, (OURS, THEIRS)), place, exporter="test")
    whole = exported(told, tmp_path / "whole.affiant.zip", OURS, THEIRS)
    assert done.opened is not None and whole.opened is not None
    before, after = dict(whole.opened), dict(done.opened)
    gone = before[Outcome.OPENED] - after[Outcome.OPENED]
    assert gone == 3 and after[Outcome.OPENED] >= 3, "start, answer, close; and the other tenant's"
    assert after[Outcome.ABSENT] - before[Outcome.ABSENT] == gone
    assert after[Outcome.ERASED] == before[Outcome.ERASED] == 1
    with PeriodBundle(place) as bundle:
        shown = [text for text in bundle.receipts() if text.count("~") > 1]
    owners = {json.loads(from_b64u(text.split(".")[1]))["agt"]["ses"] for text in shown}
    assert owners == {told.theirs}


def _openings(store: Path) -> list[tuple[Place, OpeningEntry]]:
    found = []
    for path in sorted(store.glob("*.seg")):
        for frame in scan(path.read_bytes()).entries:
            with suppress(JournalMalformed):  # an erased one
                entry = decode_entry(frame.payload)
                if isinstance(entry, OpeningEntry):
                    found.append((Place(int(path.stem), frame.offset, frame.size), entry))
    return found


def _is_key_of(entry: OpeningEntry, session: str) -> bool:
    return entry.ses == session and entry.sealed.startswith("2k.")


def test_each_signer_has_one_key_for_a_session_and_the_tenant_opens_both(told: Told) -> None:
    keys = [entry for _, entry in _openings(told.store) if entry.sealed.startswith("2k.")]
    assert sorted(entry.ses for entry in keys) == sorted(
        [told.ours, told.theirs]
    )  # no supervisor sealed by one here
    assert len({entry.rh for entry in keys}) == len(keys)
    assert told.answer["openings"].keys() & {entry.rh for entry in keys} == {
        entry.rh for entry in keys if entry.ses == told.ours
    }


def test_the_archive_verifies_and_its_content_is_matched(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "x.affiant.zip"
    exported(told, place, OURS)
    verdict = judged(place, told, request=BODY, timeline=5000)
    assert refused(verdict) == {}
    assert verdict.exit_code == 40
    (check,) = (each for each in verdict.checks if each.code == "body.request")
    assert (check.state, check.tier) == (State.HELD, Tier.AFFIRMING)
    told_of = {name for moment in verdict.timeline for name, _ in moment.facts}
    unopened = judged(_bare(told, tmp_path), told, timeline=5000)
    assert "agt.user" in told_of - {name for moment in unopened.timeline for name, _ in moment.facts}
    (bare,) = (
        each
        for each in judged(_bare(told, tmp_path), told, request=BODY).checks
        if each.code == "body.request"
    )
    assert bare.tier is not Tier.AFFIRMING, "what is not opened is not matched"


def test_the_second_verifier_says_the_same_of_what_is_opened(told: Told, tmp_path: Path) -> None:
    exported(told, tmp_path / "x.affiant.zip", OURS)
    at = datetime.now(UTC).replace(microsecond=0) + timedelta(minutes=5)
    asked = Question((tmp_path / "x.affiant.zip").read_bytes(), told.trust, at, request=BODY)
    question = period_pinning_its_log(asked, tmp_path)
    (theirs,) = ask([question], tmp_path)
    assert not disagreements(python_says_of_period(question, tmp_path), dict(theirs))
    (check,) = (each for each in theirs["checks"] if each["code"] == "body.request")
    assert (check["state"], check["tier"]) == ("held", "affirming")


def _bare(told: Told, tmp_path: Path) -> Path:
    place = tmp_path / "bare.affiant.zip"
    exported(told, place)
    return place


def test_a_single_bundle_is_opened_and_counted_alike(told: Told) -> None:
    opener = Opener([OURS])
    bundle = open_counted(parse_sealed_bundle(json.dumps(told.answer).encode()), opener)
    found = {receipt_hash(text.partition("~")[0]) for text in bundle.receipts if text.count("~") > 1}
    assert opener.counts[Outcome.OPENED] == len(found) == 3
    assert (opener.counts[Outcome.ERASED], opener.counts[Outcome.UNFIT]) == (1, 1)
    verdict = verify_bundle(
        bundle.to_bytes(),
        parse_trust_file(told.trust),
        verifiers=STANDARD_VERIFIERS,
        at=datetime.now(UTC),
        build="test",
    )
    assert refused(verdict) == {}


def test_two_keys_open_what_is_sealed_to_either(told: Told, tmp_path: Path) -> None:
    done = exported(told, tmp_path / "x.zip", THEIRS, OURS)
    assert done.opened is not None
    assert done.opened[Outcome.OTHER_KEY] == 0
    assert done.opened[Outcome.OPENED] == len(disclosed(tmp_path / "x.zip"))


def test_a_key_that_opens_nothing_is_said_to(told: Told, tmp_path: Path) -> None:
    done = exported(told, tmp_path / "x.zip", X25519PrivateKey.generate())
    assert done.opened is not None
    assert (done.opened[Outcome.OPENED], disclosed(tmp_path / "x.zip")) == (0, {})
    assert done.opened[Outcome.OTHER_KEY] > 5


def test_only_what_is_exported_is_opened(told: Told, tmp_path: Path) -> None:
    done = exported(told, tmp_path / "x.zip", OURS, sessions=(told.theirs,))
    assert done.opened is not None
    assert (done.opened[Outcome.OPENED], done.opened[Outcome.ERASED]) == (0, 0)


def test_without_a_key_nothing_is_opened_and_nothing_said(told: Told, tmp_path: Path) -> None:
    done = exported(told, tmp_path / "x.zip")
    assert done.opened is None
    with PeriodBundle(tmp_path / "x.zip") as bundle:
        assert not any(name.startswith("disclosures/") for name in bundle.archive.members)


def test_the_same_range_and_keys_give_the_same_bytes(told: Told, tmp_path: Path) -> None:
    for name, keys in (("a", (OURS, THEIRS)), ("b", (THEIRS, OURS))):
        exported(told, tmp_path / name, *keys)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_the_receipts_are_the_same_with_and_without(told: Told, tmp_path: Path) -> None:
    exported(told, tmp_path / "a", OURS)
    exported(told, tmp_path / "b")
    with PeriodBundle(tmp_path / "a") as one, PeriodBundle(tmp_path / "b") as other:
        assert one.read("receipts/000000.ndjson") == other.read("receipts/000000.ndjson")


def test_an_archive_with_what_is_hidden_is_readable_for_its_owner_alone(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "x.zip"
    place.write_bytes(b"")
    (tmp_path / ".x.zip.new").write_bytes(b"left by a writer that was killed")
    exported(told, place, OURS)
    assert place.stat().st_mode & 0o777 == 0o600


# -- stopped, and what happened meanwhile --------------------------------------------------------------------------


def test_a_stopped_export_goes_on_at_every_step(
    told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(export_module, "LINES_PER_FILE", 7)
    asked, place = Asked(None, None, None, (OURS,)), tmp_path / "x.zip"
    whole = export_period(open_store(told.store), asked, tmp_path / "whole.zip", exporter="test")
    stops = 0
    for step in range(1, 200, 4):
        try:
            export_period(open_store(told.store), asked, place, exporter="test", progress=stopping_at(step))
        except Stop:
            stops += 1
            done = export_period(open_store(told.store), asked, place, exporter="test")
            assert done.resumed and done.opened == whole.opened
            assert place.read_bytes() == (tmp_path / "whole.zip").read_bytes()
            continue
        break
    assert stops > 2


def test_what_was_erased_since_the_stop_is_not_in_the_archive(
    told: Told, tmp_path: Path, platform: PlatformClient
) -> None:
    """The draft held it in clear."""
    store, place = tmp_path / "store", tmp_path / "x.zip"
    shutil.copytree(told.store, store)
    asked = Asked(None, None, None, (OURS,))

    def stop(what: str, done: int, total: int) -> None:
        if what == "packing":
            raise Stop

    with pytest.raises(Stop):
        export_period(open_store(store), asked, place, exporter="test", progress=stop)
    assert list(tmp_path.glob(".x.zip.draft/bundle/disclosures/*.ndjson"))
    with serving(platform, store) as inside:
        bundle = inside.run(inside.service.bundles.of_session(told.ours))
        items = ToldSession(told.ours, OURS, json.loads(bundle)).items(1, "inference")
        erase(inside, [item for item in items if item["rh"] != told.erased])
    done = export_period(open_store(store), asked, place, exporter="test")
    assert done.resumed and done.opened is not None
    assert done.opened[Outcome.ERASED] == 2
    assert not {item["rh"] for item in items} & set(disclosed(place))


def test_another_key_begins_anew(told: Told, tmp_path: Path) -> None:
    place = tmp_path / "x.zip"
    with pytest.raises(Stop):
        export_period(
            open_store(told.store),
            Asked(None, None, None, (OURS,)),
            place,
            exporter="test",
            progress=stopping_at(8),
        )
    assert not exported(told, place, THEIRS).resumed


# -- the archive in other hands ------------------------------------------------------------------------------------


def test_disclosures_that_stand_behind_another_receipt_are_refused(told: Told, tmp_path: Path) -> None:
    """Also in an archive whose manifest was made to fit."""
    place, name = tmp_path / "x.zip", "disclosures/000000.ndjson"
    exported(told, place, OURS)
    with PeriodBundle(place) as bundle:
        manifest = bundle.manifest
        lines = [json.loads(line) for line in bundle.read(name).splitlines()]
    with zipfile.ZipFile(place) as archive:
        archive.extractall(tmp_path / "open", [each for each in archive.namelist() if each != MANIFEST])
    lines[1][1:], lines[2][1:] = lines[2][1:], lines[1][1:]
    data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
    (tmp_path / "open" / name).write_bytes(data)
    write_archive(tmp_path / "open", tmp_path / "y.zip", asked=manifest.range, exporter="somebody")
    assert refused(judged(tmp_path / "y.zip", told)) == {"sig.receipts": "sd.invalid"}


# -- the command ---------------------------------------------------------------------------------------------------


def key_file(place: Path, key: X25519PrivateKey, mode: int = 0o600) -> Path:
    place.write_bytes(disclosure_key_file(key.private_bytes_raw()))
    place.chmod(mode)
    return place


def test_the_command_says_what_it_opened(told: Told, tmp_path: Path) -> None:
    ours, runner = key_file(tmp_path / "openings.key", OURS), CliRunner()
    asked = ["bundle", "export", "--store", str(told.store), "-o", str(tmp_path / "x.affiant.zip")]
    document = json.loads(runner.invoke(cli, [*asked, "--openings", str(ours), "--json"]).output)
    assert document["disclosures"] is True
    assert document["openings"]["erased"] == document["openings"]["unfit"] == 1
    said = runner.invoke(cli, [*asked, "--openings", str(ours)]).output
    assert f"{document['openings']['opened']} opened" in said
    assert "1 erased by order" in said and "sealed to another key" in said
    shown = json.loads(
        runner.invoke(cli, ["bundle", "show", str(tmp_path / "x.affiant.zip"), "--json"]).output
    )
    assert shown["disclosed"] == document["openings"]["opened"]


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_key_that_others_can_read_is_refused(told: Told, tmp_path: Path, mode: int) -> None:
    exposed = key_file(tmp_path / "openings.key", OURS, mode)
    place = tmp_path / "x.affiant.zip"
    asked = ["bundle", "export", "--store", str(told.store), "-o", str(place), "--openings", str(exposed)]
    done = CliRunner().invoke(cli, asked)
    assert done.exit_code == 1 and "openings.key" in done.output
    assert not place.exists()


def test_a_label_that_no_start_record_commits_to_is_not_shown(told: Told, tmp_path: Path) -> None:
    (label := tmp_path / "task.json").write_text('{"disclosures":["WyJzYWx0IiwidGFzayIsIngiXQ"]}')
    asked = ["bundle", "export", "--store", str(told.store), "--label", str(label), "-o"]
    done = CliRunner().invoke(cli, [*asked, str(tmp_path / "one.affiant.zip")])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "one.affiant.zip").stat().st_mode & 0o777 == 0o600, "a label is a disclosure"
    with PeriodBundle(tmp_path / "one.affiant.zip") as archive:
        assert {text.count("~") for text in archive.receipts()} == {1}


@pytest.mark.parametrize("text", ["", "{}", '{"disclosures":"a"}', '{"disclosures":[1]}', "[" * 20_000])
def test_what_is_no_label_is_refused(told: Told, tmp_path: Path, text: str) -> None:
    (label := tmp_path / "task.json").write_text(text)
    place = tmp_path / "one.affiant.zip"
    asked = ["bundle", "export", "--store", str(told.store), "--label", str(label), "-o", str(place)]
    done = CliRunner().invoke(cli, asked)
    assert (done.exit_code, place.exists()) == (2, False)
    assert f"{label} is not a task label. Use `task.json` from the session's folder." in done.output
