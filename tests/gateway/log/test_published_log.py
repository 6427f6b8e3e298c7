"""A gateway under witnesses: real witness processes cosign its log, and nothing is admitted without them."""

from __future__ import annotations

import asyncio
import itertools
import json
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.gateway.conftest import process
from tests.gateway.in_process import InProcess, in_process, release_of_the_tree
from tests.gateway.journal_reader import entries_of, records_of
from tests.gateway.session_client import SessionClient, admission_headers, admission_of, draft
from tests.raising import raises_code

from affiant.__main__ import cli
from affiant.attestation.bundle.bundle import parse_bundle
from affiant.attestation.encoding.binary_text import from_b64u
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.statements.gateway_config import local_log_origin
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tlog.errors import QuorumMissed
from affiant.attestation.tlog.note import parse_note
from affiant.attestation.tlog.quorum import parse_witness_policy, verify_quorum
from affiant.attestation.verdict.trust_file import simulated_trust_file
from affiant.gateway.log.log_key import load_log_signer
from affiant.gateway.log.transparency_log import log_folder
from affiant.gateway.log.witnesses import WitnessBounds

SOON = WitnessBounds(interval_s=0.2, spacing_s=0.05, wait_s=20.0, answer_s=10.0, grace_s=0.2)


class Witness:
    """A witness's folder and address; :meth:`serving` runs its process."""

    def __init__(self, folder: Path, name: str) -> None:
        self.key, self.name = folder / f"{name}.key", name
        with socket.create_server(("127.0.0.1", 0)) as probe:
            self.listen = f"127.0.0.1:{probe.getsockname()[1]}"
        made = CliRunner().invoke(
            cli,
            [
                "witness",
                "init",
                "--name",
                f"witness.example/{name}",
                "--key",
                str(self.key),
                "--only",
                "ed25519",
            ],
        )
        assert made.exit_code == 0, made.output
        self.vkey = next(line for line in made.output.split() if line.startswith("witness.example/"))

    @property
    def line(self) -> str:
        return f"witness {self.name} {self.vkey} http://{self.listen}"

    @contextmanager
    def serving(self, log: str) -> Iterator[None]:
        with process(
            [
                *(sys.executable, "-m", "affiant", "witness", "serve", "--key", str(self.key)),
                *("--log", log, "--listen", self.listen),
            ]
        ):
            yield


@pytest.fixture
def store(tmp_path: Path) -> Path:
    folder = tmp_path / "store"
    folder.mkdir(mode=0o700)
    return folder


@pytest.fixture
def log_vkey(platform: PlatformClient, store: Path) -> str:
    """The log's key, made before its gateway, so that witnesses can be told of it."""
    reference = parse_reference_values(reference_values(release_of_the_tree(), platform.root()))
    origin = local_log_origin(reference.roots)
    return load_log_signer(log_folder(store, origin), origin).verifier.vkey()


@pytest.fixture
def witness(tmp_path: Path) -> Witness:
    return Witness(tmp_path, "w1")


def only(witness: Witness) -> str:
    return f"{witness.line}\nquorum {witness.name}\n"


def admitted(inside: InProcess, platform: PlatformClient) -> tuple[int, str]:
    made = draft(inside)
    answer = inside.ask(
        "POST",
        "/v1/sessions",
        admission_of(made, platform),
        admission_headers(made.nonce),
    )
    return answer.status, "" if answer.status < 300 else answer.code


def states(inside: InProcess) -> dict[str, str]:
    return json.loads(inside.run(inside.service.overview()))["log"]["witnesses"]


def settled(inside: InProcess) -> None:
    """Wait for a round that covers what was recorded so far."""
    inside.run(inside.service.log.include())


def verified(inside: InProcess, document: dict, folder: Path, policy: str) -> dict:
    trust = json.loads(
        simulated_trust_file(inside.service.admissions.appraiser.reference.raw, datetime.now(UTC))
    )
    trust |= {"witnesses": [{"value": policy}], "gateway_configs": [{"value": inside.service.config.digest}]}
    (folder / "trust.json").write_text(json.dumps(trust))
    (folder / "bundle.affiant.json").write_text(json.dumps(document))
    shown = CliRunner().invoke(
        cli, ["verify", str(folder / "bundle.affiant.json"), "--trust", str(folder / "trust.json"), "--json"]
    )
    return {check["code"]: check for check in json.loads(shown.output)["checks"]}


def test_a_whole_session_under_witnesses_reaches_L3(
    platform: PlatformClient, store: Path, tmp_path: Path, log_vkey: str, witness: Witness
) -> None:
    """Two of three cosign; the third was never there."""
    second, gone = Witness(tmp_path, "w2"), Witness(tmp_path, "w3")
    lines = [each.line for each in (witness, second, gone)]
    policy = "\n".join([*lines, "group all 2 w1 w2 w3", "quorum all", ""])
    with (
        witness.serving(log_vkey),
        second.serving(log_vkey),
        in_process(platform, store, policy=policy, witnesses=SOON) as inside,
    ):
        session = SessionClient.start(inside, platform)
        assert session.say("hi").status == 200
        session.submit(session.end_record())
        session.close()
        document = session.bundle()["bundle"]
        served = parse_note(inside.ask("GET", "/log/checkpoint").body)
        assert set(states(inside).values()) == {"cosigned", "witness.unreachable"}
        assert inside.ask("GET", "/readyz").status == 200
        checks = verified(inside, document, tmp_path, policy)
    log = inside.service.keyset.statement.log
    assert log is not None
    assert set(verify_quorum(served, parse_witness_policy(policy.encode()), logs=[log.key]).times) == {
        "w1",
        "w2",
    }
    assert checks["wit.quorum"]["state"] == "held", checks["wit.quorum"]
    assert checks["time.bracket"]["state"] == "held", checks["time.bracket"]
    assert checks["time.bracket"]["detail"].startswith("every record within")
    bundle = parse_bundle(json.dumps(document).encode())
    stated = inside.service.keyset.statement.cp
    assert stated is not None and f"sha256:{from_b64u(stated).hex()}" in bundle.checkpoints


def test_nothing_is_admitted_until_the_witnesses_have_cosigned(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
        assert admitted(inside, platform) == (503, "log.unwitnessed")
        assert inside.ask("GET", "/readyz").status == 503
        assert list(states(inside).values()) == ["witness.unreachable"]
        with witness.serving(log_vkey):
            settled(inside)
            assert admitted(inside, platform)[0] < 300


def test_witnesses_that_fall_silent_end_admission_and_no_session(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
        with witness.serving(log_vkey):
            settled(inside)
            session = SessionClient.start(inside, platform)
        inside.clock.offset = timedelta(seconds=290)
        assert inside.service.log.keeps_up
        inside.clock.offset = timedelta(seconds=310)
        assert not inside.service.log.keeps_up
        assert admitted(inside, platform) == (503, "log.unwitnessed")
        inside.clock.offset = timedelta(0)
        assert session.say("hi").status == 200
        document = session.bundle()["bundle"]
        assert document["receipts"][0]["proof"].count("\n— ") == 1  # by the log's own word


def test_a_wall_clock_that_is_held_still_does_not_keep_a_checkpoint_young(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
        with witness.serving(log_vkey):
            settled(inside)
        log = inside.service.log
        assert log._newest is not None
        log._newest = replace(log._newest, asked=log._newest.asked - 301)
        assert not log.keeps_up


def test_the_witness_finds_one_tree_across_boots(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with witness.serving(log_vkey):
        for _ in range(2):
            with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
                SessionClient.start(inside, platform).say("hi")
                settled(inside)
                assert list(states(inside).values()) == ["cosigned"]


def test_a_log_that_was_set_back_is_not_cosigned_and_admits_nobody(
    platform: PlatformClient, store: Path, tmp_path: Path, log_vkey: str, witness: Witness
) -> None:
    """The operator brings an older copy of the folder back; the log's own key would sign a second history."""
    folder = next((store / "log").iterdir())
    with witness.serving(log_vkey):
        shutil.copytree(folder, tmp_path / "copy")
        with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
            for _ in range(3):
                SessionClient.start(inside, platform)
            settled(inside)
        shutil.rmtree(folder)
        shutil.copytree(tmp_path / "copy", folder)
        with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
            settled(inside)
            assert admitted(inside, platform) == (503, "log.unwitnessed")
            assert set(states(inside).values()) <= {"witness.ahead", "witness.inconsistent"}


def test_an_epoch_names_the_newest_cosigned_checkpoint_and_each_start_has_one_before_it(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with (
        witness.serving(log_vkey),
        in_process(platform, store, policy=only(witness), witnesses=SOON) as inside,
    ):
        first = SessionClient.start(inside, platform)
        second = SessionClient.start(inside, platform)
        for before, session in enumerate((first, second)):
            bundle = parse_bundle(json.dumps(session.bundle()["bundle"]).encode())
            payloads = [json.loads(from_b64u(text.split(".")[1])) for text in bundle.receipts]
            start = next(n for n, each in enumerate(payloads) if each["kind"] == "session-start")
            epoch = payloads[start - 1]
            assert (epoch["kind"], epoch["seq"]) == ("epoch", payloads[start]["seq"] - 1)
            name = f"sha256:{from_b64u(epoch['cp']).hex()}"
            seen = verify_quorum(
                parse_note(bundle.checkpoints[name]),
                parse_witness_policy(only(witness).encode()),
                logs=[inside.service.keyset.statement.log.key],
            )
            assert seen.checkpoint.size == epoch["cps"] <= epoch["seq"] + before, (
                "the first session's boot has a leaf too"
            )
            named = {each["cp"] for each in payloads if "cp" in each}
            named.add(inside.service.keyset.statement.cp)
            assert {f"sha256:{from_b64u(cp).hex()}" for cp in named} == set(bundle.checkpoints)


def test_many_who_wait_for_witnesses_that_fail_wait_for_two_rounds_at_most(
    platform: PlatformClient, store: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = WitnessBounds(interval_s=1000, spacing_s=0.05)
    with in_process(platform, store, policy=only(witness), witnesses=bounds) as inside:
        log, rounds = inside.service.log, []

        async def hang(*_: object) -> None:
            rounds.append(1)
            await asyncio.sleep(0.2)
            raise QuorumMissed("nobody answers")

        settled(inside)
        monkeypatch.setattr(log._witnesses, "cosign", hang)

        async def all_wait() -> None:
            await asyncio.gather(*(log.include() for _ in range(20)))

        inside.run(all_wait())
    assert 1 <= len(rounds) <= 2


def test_witnesses_that_hang_keep_nobody_waiting_longer_than_the_bound(
    platform: PlatformClient, store: Path, witness: Witness, monkeypatch: pytest.MonkeyPatch
) -> None:
    bounds = WitnessBounds(interval_s=1000, spacing_s=0.05, wait_s=0.4)
    with in_process(platform, store, policy=only(witness), witnesses=bounds) as inside:
        log, rounds = inside.service.log, []

        async def hang(*_: object) -> None:
            rounds.append(1)
            await asyncio.sleep(1000)

        settled(inside)
        monkeypatch.setattr(log._witnesses, "cosign", hang)
        began = time.monotonic()
        settled(inside)
        with raises_code("log.unwitnessed"):
            inside.run(log.require_witnessed())
        assert time.monotonic() - began < 2 * bounds.wait_s + 1
    assert len(rounds) == 1


def test_whoever_asks_in_a_loop_does_not_make_the_gateway_hammer_the_witnesses(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    bounds = WitnessBounds(interval_s=1000, spacing_s=0.3)
    with (
        witness.serving(log_vkey),
        in_process(platform, store, policy=only(witness), witnesses=bounds) as inside,
    ):
        session, log, asked = SessionClient.start(inside, platform), inside.service.log, []
        ask = log._witnesses.cosign
        log._witnesses.cosign = lambda *given: asked.append(time.monotonic()) or ask(*given)
        for _ in range(6):
            session.say("hi")
            session.bundle()
        assert asked
        assert all(later - before >= bounds.spacing_s for before, later in itertools.pairwise(asked))


def test_a_boot_without_witnesses_has_no_witnessed_beginning_and_says_so(
    platform: PlatformClient, store: Path, tmp_path: Path, log_vkey: str, witness: Witness
) -> None:
    with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
        assert inside.service.keyset.statement.cp is None
        with witness.serving(log_vkey):
            settled(inside)
            document = SessionClient.start(inside, platform).bundle()["bundle"]
        checks = verified(inside, document, tmp_path, only(witness))
    assert checks["time.bracket"]["tier"] == "warning"
    assert "1 record has no earlier cosigned checkpoint" in checks["time.bracket"]["detail"]


def test_a_later_boot_names_the_log_as_its_predecessor_left_it(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with witness.serving(log_vkey):
        with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
            SessionClient.start(inside, platform).say("hi")
            left = inside.run(inside.service.log.include()).checkpoint.size
        with in_process(platform, store, policy=only(witness), witnesses=SOON) as inside:
            bundle = parse_bundle(
                json.dumps(SessionClient.start(inside, platform).bundle()["bundle"]).encode()
            )
            stated = inside.service.keyset.statement.cp
    assert stated is not None
    note = parse_note(bundle.checkpoints[f"sha256:{from_b64u(stated).hex()}"])
    seen = verify_quorum(
        note, parse_witness_policy(only(witness).encode()), logs=[inside.service.keyset.statement.log.key]
    )
    assert seen.checkpoint.size >= left


@pytest.mark.parametrize("offset", [-90, 90])
def test_a_clock_that_the_witnesses_contradict_admits_nobody(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness, offset: int
) -> None:
    """What was dated by it, no verifier would take."""
    with (
        witness.serving(log_vkey),
        in_process(platform, store, policy=only(witness), witnesses=SOON) as inside,
    ):
        settled(inside)
        inside.clock.offset = timedelta(seconds=offset)
        asked_again(inside)
        assert admitted(inside, platform) == (503, "clock.contradicted")
        assert inside.ask("GET", "/readyz").status == 503
        inside.clock.offset = timedelta(0)
        asked_again(inside)
        assert admitted(inside, platform)[0] < 300


def asked_again(inside: InProcess) -> None:
    """Twice: a round that was under way when the clock changed may be the first to be waited for."""
    for _ in range(2):
        inside.run(inside.service.log._round(inside.service.log._witnesses))


def test_a_gateway_that_ends_leaves_a_cosigned_checkpoint_over_all_that_it_recorded(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    with (
        witness.serving(log_vkey),
        in_process(platform, store, policy=only(witness), witnesses=SOON) as inside,
    ):
        SessionClient.start(inside, platform).say("hi")
        inside.run(inside.service.closing.end())
        key = inside.service.keyset.statement.log.key
    entries = entries_of(store)[-1]
    notes = [from_b64u(each.data) for each in entries if getattr(each, "map", "") == "checkpoints"]
    last = verify_quorum(parse_note(notes[-1]), parse_witness_policy(only(witness).encode()), logs=[key])
    assert last.checkpoint.size == len(records_of(entries)) + 1, (
        "the gateway's records, and the session's boot"
    )
    assert records_of(entries)[-1]["kind"] == "end"


def test_witnesses_that_are_gone_delay_no_end(
    platform: PlatformClient, store: Path, log_vkey: str, witness: Witness
) -> None:
    bounds = WitnessBounds(interval_s=1000, spacing_s=0.05, wait_s=0.5)
    began = time.monotonic()
    with in_process(platform, store, policy=only(witness), witnesses=bounds) as inside:
        inside.run(inside.service.closing.end())
    assert time.monotonic() - began < 10
    assert not [each for each in entries_of(store)[-1] if getattr(each, "map", "") == "checkpoints"]
