"""Pruning whole boots: only earlier ones, only all of their chains, never what is held; leaves and orders stay."""

from __future__ import annotations

import json
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.gateway.erasure.test_erasing import (
    AUTHORITY,
    Told,
    a_session,
    bundle,
    erase,
    hold,
    refused,
    request,
    row,
    serving,
    stored,
    verified,
)
from tests.gateway.in_process import InProcess, in_process
from tests.gateway.journal_reader import entries_of, records_of
from tests.raising import raises_code

from affiant.__main__ import cli
from affiant.attestation.erasure.errors import OrderUnauthorized
from affiant.attestation.erasure.keys import AUTHORITY_KEY
from affiant.attestation.erasure.request_file import parse_request
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State, Tier
from affiant.attestation.verifier.period.verify_period import verify_period
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.gateway.bundles.export import Asked, export_period
from affiant.gateway.bundles.period_store import open_store
from affiant.gateway.erasure import erase_commands, pruning
from affiant.gateway.erasure.retention import old_boots
from affiant.gateway.wire.errors import JournalUnavailable

LATER = timedelta(days=1)


def chains(store: Path) -> list[list[dict]]:
    """What is to be named of each boot but the newest, oldest first."""
    found = old_boots(open_store(store), before=(datetime.now(UTC) + LATER).timestamp())
    return [[dict(chain.item("retention")) for chain in boot.chains] for boot in found.boots]


def segments(store: Path) -> set[str]:
    return {path.name for path in store.glob("*.seg")}


def two_boots(platform: PlatformClient, store: Path) -> list[Told]:
    told = []
    for _ in range(2):
        with serving(platform, store) as inside:
            told.append(a_session(inside, platform))
    return told


def test_a_pruned_boot_is_gone_and_another_boots_session_still_verifies(
    platform: PlatformClient, tmp_path: Path
) -> None:
    first, second = two_boots(platform, tmp_path)
    before = segments(tmp_path)
    with serving(platform, tmp_path) as inside:
        oldest = chains(tmp_path)[0]
        assert [item["lvl"] for item in oldest] == [3, 3] and oldest[0]["agt"] == {"ses": first.id}
        answer = erase(inside, oldest)
        assert answer["new"] and answer["erased"] == 1
        with raises_code("not_found", match="pruned after its retention"):
            bundle(inside, first)
        assert refused(verified(inside, bundle(inside, second), second.key)) == []
        again = a_session(inside, platform)  # the order stands amid the chain before it
        assert refused(verified(inside, bundle(inside, again), again.key)) == []
    assert len(before - segments(tmp_path)) == 1
    data = b"".join(path.read_bytes() for path in tmp_path.glob("*") if path.is_file())
    assert not any(text.encode() in data for text in first.texts)
    assert not any(sealed.encode() in data for sealed in first.answer["openings"].values())
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with serving(platform, tmp_path) as inside:  # another boot, with an index that is built anew
        with raises_code("not_found"):
            bundle(inside, first)
        assert refused(verified(inside, bundle(inside, second), second.key)) == []
        assert len(chains(tmp_path)) == 2


def test_the_same_order_again_has_the_same_answer_and_another_is_refused(
    platform: PlatformClient, tmp_path: Path
) -> None:
    two_boots(platform, tmp_path)
    with serving(platform, tmp_path) as inside:
        oldest = chains(tmp_path)[0]
        wanted = request(inside, "erasure", {"del": oldest})
        (first,) = inside.run(inside.service.erasing.take(wanted))
        (second,) = inside.run(inside.service.erasing.take(wanted))
        assert second == {**first, "new": False, "erased": 0}
        with raises_code("erasure.repeated"):
            erase(inside, [{**item, "basis": "again"} for item in oldest])
    with serving(platform, tmp_path) as inside:
        (third,) = inside.run(inside.service.erasing.take(wanted))
        assert third == second
    kinds = [record["kind"] for boot in entries_of(tmp_path) for record in records_of(boot)]
    assert kinds.count("erasure") == 1


def test_what_an_order_may_name(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        (own,) = told.items(1, "session-close")
        with raises_code("erasure.chain_growing"):
            erase(inside, [last_of(inside, own["chn"])])
    before = segments(tmp_path)
    with serving(platform, tmp_path) as inside:
        session, gateway = chains(tmp_path)[0]
        cases = (
            [gateway],  # not without its session's chain
            [session, {**gateway, "seq": gateway["seq"] - 1}],
            [session, {**gateway, "rh": "A" * 43}],
            [session, {**gateway, "chn": "A" * 22}],
            [session, {**gateway, "agt": {"ses": told.id}}],
            [{**session, "agt": {"ses": "A" * 22}}, gateway],
            [{name: session[name] for name in session if name != "agt"}, gateway],
        )
        for items in cases:
            with raises_code("erasure.mismatch"):
                erase(inside, items)
        assert before < segments(tmp_path)
        assert erase(inside, [session])["erased"] == 0  # one after another: nothing goes before the last
        verdict = verified(inside, bundle(inside, told), told.key)
        assert refused(verdict) == [] and row(verdict, "erasure.authority") is Tier.WARNING
        detail = next(check.detail for check in verdict.checks if check.code == "erasure.authority")
        assert "1 chains to be pruned; of 1 it is still here" in detail
        assert erase(inside, [gateway])["erased"] == 1
    kinds = [record["kind"] for boot in entries_of(tmp_path) for record in records_of(boot)]
    assert kinds.count("erasure") == 2  # what was refused left none


def last_of(inside: InProcess, chn: str) -> dict:
    inside.run(inside.service.bundles.index.caught_up())
    chain = inside.run(inside.service.bundles.index.whole_chain(chn))
    assert chain is not None
    return {"chn": chn, "seq": chain.seq, "rh": chain.rh, "lvl": 3, "basis": "retention"}


def test_what_is_held_is_not_pruned(platform: PlatformClient, tmp_path: Path) -> None:
    first, _ = two_boots(platform, tmp_path)
    with serving(platform, tmp_path) as inside:
        session, gateway = chains(tmp_path)[0]
        record = first.items(1, "inference")[0]["rh"]
        for target in (first.id, record):
            held = hold(inside, target)
            assert len(chains(tmp_path)) == 1  # the request that is made leaves it out
            with raises_code("erasure.held", match="a lawsuit"):
                erase(inside, [session, gateway])
            hold(inside, target, rel=held["rh"])
        erase(inside, [session])
        held = hold(inside, first.id, basis="another lawsuit")  # between the two orders
        with raises_code("erasure.held"):
            erase(inside, [gateway])
        assert refused(verified(inside, bundle(inside, first), first.key)) == []
        hold(inside, first.id, rel=held["rh"])
        erase(inside, [gateway])


@pytest.mark.parametrize("at", ["before it", "amid it", "after it"])
def test_what_was_ordered_and_logged_is_pruned_at_the_next_start(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    first, second = two_boots(platform, tmp_path)
    real = pruning._delete

    def dying(folder: Path, numbers: Sequence[int]) -> None:
        if at != "before it":
            real(folder, numbers[1:] if at == "amid it" else numbers)
        raise JournalUnavailable("killed here")

    with serving(platform, tmp_path) as inside:
        oldest = chains(tmp_path)[0]
        with monkeypatch.context() as patched:
            patched.setattr(pruning, "_delete", dying)
            with pytest.raises(JournalUnavailable):
                erase(inside, oldest)
    with serving(platform, tmp_path) as inside:
        with raises_code("not_found"):
            bundle(inside, first)
        assert refused(verified(inside, bundle(inside, second), second.key)) == []
    assert not any(text.encode() in stored(tmp_path) for text in first.texts)


def test_a_boot_that_gave_orders_keeps_them_and_nothing_else(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        first = a_session(inside, platform)
    with serving(platform, tmp_path) as inside:
        second = a_session(inside, platform)
        erase(inside, first.items(2, "inference"))
        held = hold(inside, first.id)
    with serving(platform, tmp_path) as inside:
        (boot,) = chains(tmp_path)  # the first is held, by an order that stands in the second
        assert erase(inside, boot)["erased"] > 1
        with raises_code("not_found"):
            bundle(inside, second)
        assert refused(verified(inside, bundle(inside, first), first.key)) == []
    assert not any(receipt in stored(tmp_path) for receipt in map(str.encode, second.texts[1:]) if receipt)
    with serving(platform, tmp_path) as inside:
        (boot,) = chains(tmp_path)[:1]
        with raises_code("erasure.held"):
            erase(inside, first.items(1, "session-start"))
        hold(inside, first.id, rel=held["rh"])
        assert refused(verified(inside, bundle(inside, first), first.key)) == []


def test_an_export_of_a_pruned_range_says_erased(platform: PlatformClient, tmp_path: Path) -> None:
    store = tmp_path / "store"
    first, _ = two_boots(platform, store)
    asked = Asked(None, datetime.now(UTC) + LATER)
    with serving(platform, store) as inside:
        for boot in chains(store):
            erase(inside, boot)
        trust = simulated_trust_file(
            inside.service.admissions.appraiser.reference.raw,
            datetime.now(UTC),
            gateway_configs=[inside.service.config.digest],
            erasure_authorities=[AUTHORITY.public_key],
        )
    place = tmp_path / "all.affiant.zip"
    export_period(open_store(store), asked, place, exporter="a test")
    verdict = verify_period(
        place,
        parse_trust_file(trust),
        verifiers=STANDARD_VERIFIERS,
        at=datetime.now(UTC),
        build="build",
        since=asked.since,
        until=asked.until,
    )
    (coverage,) = [check for check in verdict.checks if check.code == "chain.coverage"]
    assert coverage.state is State.HELD and "erased by order" in coverage.detail, coverage
    assert "without a record" not in coverage.detail
    assert [check for check in verdict.checks if check.state is State.REFUSED] == []


def erase_command(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["erase", *(str(each) for each in arguments)])


@pytest.fixture
def key(tmp_path: Path) -> Path:
    path = tmp_path / "officer.key"
    assert erase_command("keygen", "-o", path).exit_code == 0
    return path


def aged(monkeypatch: pytest.MonkeyPatch, days: int) -> None:
    """The command's clock, that much later."""

    class Later(datetime):
        @classmethod
        def now(cls, tz: object = None) -> datetime:
            return datetime.now(tz) + timedelta(days=days)  # type: ignore[arg-type]

    monkeypatch.setattr(erase_commands, "datetime", Later)


def test_the_command_names_old_boots_whose_order_the_gateway_takes(
    platform: PlatformClient, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, output = tmp_path / "store", tmp_path / "r.json"
    authority = AUTHORITY_KEY.read(key)
    with serving(platform, store) as inside:
        first = a_session(inside, platform)
    with in_process(platform, store, authorities=[authority.public_key]) as inside:
        arguments = ("retention", "--basis", "plan 4", "--store", store, "--key", key, "-o", output)
        replacing = erase_command(*arguments[:-1], key, "--days", 30)
        assert replacing.exit_code == 2 and AUTHORITY_KEY.read(key).public_key == authority.public_key
        young = erase_command(*arguments, "--days", 30)
        assert young.exit_code == 0 and "nothing to prune" in young.output and not output.exists()
        aged(monkeypatch, 31)
        told = erase_command(*arguments, "--days", 30, "--json")
        assert told.exit_code == 0, told.output
        found = json.loads(told.output)
        assert [boot["chains"] for boot in found["boots"]] == [2] and found["file"] == str(output)
        wanted = parse_request(output.read_bytes())
        with pytest.raises(OrderUnauthorized):  # made by a clock that is a month ahead
            inside.run(inside.service.erasing.take(wanted))
        inside.clock.offset = timedelta(days=31)
        (answer,) = inside.run(inside.service.erasing.take(wanted))
        assert answer["new"] and answer["erased"] == 1
        output.unlink()
        again = erase_command(*arguments, "--days", 30)
        assert again.exit_code == 0 and not output.exists()
        with raises_code("not_found"):
            bundle(inside, first)


def test_a_boot_that_is_held_is_counted_and_not_named(
    platform: PlatformClient, tmp_path: Path, key: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, output = tmp_path / "store", tmp_path / "r.json"
    first, _ = two_boots(platform, store)
    with serving(platform, store) as inside:
        hold(inside, first.id)
    aged(monkeypatch, 2)
    arguments = ("--days", 1, "--basis", "plan 4", "--store", store, "--key", key, "-o", output)
    told = json.loads(erase_command("retention", *arguments, "--json").output)
    assert told["held"] == 1 and len(told["boots"]) == 1
    shown = erase_command("show", output)
    assert shown.exit_code == 0 and shown.output.count("chain up to ") == 2
    assert first.id not in output.read_text()
