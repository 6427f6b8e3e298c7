"""Erasing by order: record, leaf, then deletion; wherever it stops, the next start ends it or nothing happened."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from tests.gateway.in_process import InProcess, asgi, in_process
from tests.gateway.journal_reader import entries_of, records_of
from tests.gateway.session_client import SessionClient, opened
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u, from_b64u
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.encoding.keys import Signer
from affiant.attestation.erasure.errors import OrderUnauthorized
from affiant.attestation.erasure.orders import sign_order
from affiant.attestation.erasure.request_file import Request
from affiant.attestation.records.receipt import receipt_hash
from affiant.attestation.simulated.served.client import PlatformClient
from affiant.attestation.verdict.trust_file import parse_trust_file, simulated_trust_file
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.standard_verifiers import STANDARD_VERIFIERS
from affiant.attestation.verifier.verify_bundle import verify_bundle
from affiant.gateway.erasure import erasing
from affiant.gateway.service.control_plane import operator_plane
from affiant.gateway.store.entries import ErasedEntry, OpeningEntry, RecordEntry, encode_entry
from affiant.gateway.store.journal import segment_path
from affiant.gateway.store.journal_format import SegmentWriter, scan
from affiant.gateway.wire.errors import JournalUnavailable

AUTHORITY = Signer(ec.derive_private_key(31, ec.SECP256R1()))
STRANGER = Signer(ec.derive_private_key(32, ec.SECP256R1()))


@dataclass
class Told:
    """A session that has ended, and what its bundle said before anything was erased."""

    id: str
    key: X25519PrivateKey = field(repr=False)
    answer: dict = field(repr=False)

    @property
    def texts(self) -> list[str]:
        return [entry["sdjwt"].rstrip("~") for entry in self.answer["bundle"]["receipts"]]

    def claims(self, text: str) -> dict:
        return json.loads(from_b64u(text.split(".")[1]))

    def items(self, level: int, *kinds: str) -> list[dict]:
        found = []
        for text in self.texts:
            claims = self.claims(text)
            of = claims.get("agt", {})
            if claims["kind"] in kinds and of.get("ses", self.id) == self.id:
                agt = {"ses": self.id} | ({"seq": of["seq"]} if "seq" in of else {})
                found.append(
                    {"chn": claims["chn"], "seq": claims["seq"], "rh": receipt_hash(text), "lvl": level}
                    | {"basis": "an order", "agt": agt}
                )
        return found


@contextmanager
def serving(platform: PlatformClient, store: Path, **more: object) -> Iterator[InProcess]:
    with in_process(platform, store, authorities=[AUTHORITY.public_key], **more) as inside:
        yield inside


def a_session(inside: InProcess, platform: PlatformClient) -> Told:
    key = X25519PrivateKey.generate()
    session = SessionClient.start(inside, platform, openings=key)
    session.say("a secret question")
    session.say("another one")
    session.submit(session.exec_record())
    session.submit(session.end_record())
    session.close()
    return Told(session.id, key, session.bundle())


def request(
    inside: InProcess,
    kind: str,
    members: Mapping[str, object],
    *,
    signer: Signer = AUTHORITY,
    origin: str = "",
) -> Request:
    origin = origin or inside.service.config.origin
    aut = sign_order(signer, kind, members, origin=origin, made=int(time.time()))
    return Request(kind, origin, ({**members, "aut": aut},))


def erase(inside: InProcess, items: Sequence[dict]) -> dict:
    wanted = request(inside, "erasure", {"del": list(items)})
    return dict(inside.run(inside.service.erasing.take(wanted))[0])


def hold(inside: InProcess, target: str, **more: str) -> dict:
    wanted = request(inside, "hold", {"tgt": target, "basis": "a lawsuit", **more})
    return dict(inside.run(inside.service.erasing.take(wanted))[0])


def bundle(inside: InProcess, told: Told) -> dict:
    return json.loads(inside.run(inside.service.bundles.of_session(told.id)))


def verified(inside: InProcess, answer: dict, key: X25519PrivateKey) -> Verdict:
    disclosures = opened(answer, key)
    document = answer["bundle"]
    for entry in document["receipts"]:
        jws = entry["sdjwt"].rstrip("~")
        entry["sdjwt"] = "~".join([jws, *disclosures.get(receipt_hash(jws), ()), ""])
    trust = simulated_trust_file(
        inside.service.admissions.appraiser.reference.raw,
        datetime.now(UTC),
        gateway_configs=[inside.service.config.digest],
        erasure_authorities=[AUTHORITY.public_key],
    )
    return verify_bundle(
        json.dumps(document).encode(),
        parse_trust_file(trust),
        verifiers=STANDARD_VERIFIERS,
        at=datetime.now(UTC),
        build="build",
    )


def refused(verdict: Verdict) -> list[str]:
    return [f"{check.code} {check.detail}" for check in verdict.checks if check.state is State.REFUSED]


def row(verdict: Verdict, code: str) -> Tier | None:
    return next(check.tier for check in verdict.checks if check.code == code)


def stored(store: Path) -> bytes:
    return b"".join(path.read_bytes() for path in store.rglob("*") if path.is_file())


def test_content_is_gone_from_the_store_and_its_receipts_still_verify(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        items = told.items(1, "inference", "exec")
        sealed = [told.answer["openings"][item["rh"]] for item in items]
        assert all(text.encode() in stored(tmp_path) for text in sealed)
        answer = erase(inside, items)
        assert answer["new"] and answer["erased"] == 3
        after = bundle(inside, told)
        assert not {item["rh"] for item in items} & set(after["openings"])
        verdict = verified(inside, after, told.key)
        assert refused(verdict) == [] and row(verdict, "erasure.authority") is Tier.WARNING
    assert not any(text.encode() in stored(tmp_path) for text in sealed)


def test_records_are_gone_from_the_store_and_the_verifier_says_erased(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        items = told.items(2, "inference", "exec")
        gone = [text for text in told.texts if receipt_hash(text) in {item["rh"] for item in items}]
        erase(inside, items)
        verdict = verified(inside, bundle(inside, told), told.key)
        assert refused(verdict) == []
        assert row(verdict, "chain.contiguous") is Tier.WARNING
        assert row(verdict, "log.inclusion") is Tier.AFFIRMING
    data = stored(tmp_path)
    assert len(gone) == 3 and not any(text.encode() in data for text in gone)
    with serving(platform, tmp_path) as inside:  # another boot, on the same store
        assert refused(verified(inside, bundle(inside, told), told.key)) == []
    for name in ("index.sqlite", "index.sqlite-wal", "index.sqlite-shm"):
        (tmp_path / name).unlink(missing_ok=True)
    with serving(platform, tmp_path) as inside:  # and with an index that is built anew
        assert refused(verified(inside, bundle(inside, told), told.key)) == []


def test_records_of_an_earlier_boot_are_erased_by_a_later_one(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
    with serving(platform, tmp_path) as inside:
        erase(inside, told.items(1, "session-start"))
        erase(inside, told.items(2, "inference"))
        after = bundle(inside, told)
        assert len(after["bundle"]["keysets"]) == 3  # both gateways' and the session's
        assert refused(verified(inside, after, told.key)) == []


def test_the_same_order_again_has_the_same_answer_and_no_second_record(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        wanted = request(inside, "erasure", {"del": told.items(2, "inference")})
        (first,) = inside.run(inside.service.erasing.take(wanted))
        (second,) = inside.run(inside.service.erasing.take(wanted))
        assert {**second, "new": True, "erased": first["erased"]} == first and not second["new"]
    with serving(platform, tmp_path) as inside:
        (third,) = inside.run(inside.service.erasing.take(wanted))
        assert third["record"] == first["record"] and not third["new"]
    kinds = [record["kind"] for boot in entries_of(tmp_path) for record in records_of(boot)]
    assert kinds.count("erasure") == 1


def test_what_is_held_stays_until_the_holds_end(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        held = hold(inside, told.id)
        with raises_code("erasure.held", match="a lawsuit"):
            erase(inside, told.items(1, "inference"))
        assert refused(verified(inside, bundle(inside, told), told.key)) == []
    with serving(platform, tmp_path) as inside:  # a later boot knows it too
        with raises_code("erasure.held"):
            erase(inside, told.items(2, "inference"))
        with raises_code("hold.unknown"):
            hold(inside, told.items(2, "inference")[0]["rh"], rel=held["rh"])
        hold(inside, told.id, rel=held["rh"])
        erase(inside, told.items(2, "inference"))
        verdict = verified(inside, bundle(inside, told), told.key)
        assert refused(verdict) == [] and row(verdict, "hold.respected") is Tier.AFFIRMING


def test_a_hold_that_was_ended_is_not_taken_for_one_in_force_when_it_is_sent_again(
    platform: PlatformClient, tmp_path: Path
) -> None:
    """To answer it as a replay would let its sender believe that something is held."""
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        wanted = request(inside, "hold", {"tgt": told.id, "basis": "a lawsuit"})
        (held,) = inside.run(inside.service.erasing.take(wanted))
        (again,) = inside.run(inside.service.erasing.take(wanted))
        assert again["rh"] == held["rh"] and not again["new"]
        hold(inside, told.id, rel=held["rh"])
        with raises_code("hold.unknown", match="ended since"):
            inside.run(inside.service.erasing.take(wanted))


def test_one_held_record_refuses_the_whole_order(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        items = told.items(2, "inference")
        hold(inside, items[1]["rh"])
        with raises_code("erasure.held"):
            erase(inside, items)
        assert bundle(inside, told)["openings"].keys() >= {item["rh"] for item in items}
        erase(inside, items[:1])


def test_what_no_authority_ordered_is_refused_and_leaves_no_record(
    platform: PlatformClient, tmp_path: Path
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        members = {"del": told.items(2, "inference")}
        other = {"del": told.items(1, "inference")}
        take = inside.service.erasing.take
        aut = request(inside, "erasure", members).orders[0]["aut"]
        moved = Request("erasure", inside.service.config.origin, ({**other, "aut": aut},))
        elsewhere = request(inside, "erasure", members, origin="elsewhere.example")
        for wanted, error in (
            (request(inside, "erasure", members, signer=STRANGER), OrderUnauthorized.code),
            (moved, OrderUnauthorized.code),
            (elsewhere, "erasure.mismatch"),
            (Request("erasure", inside.service.config.origin, elsewhere.orders), OrderUnauthorized.code),
        ):
            with raises_code(error):
                inside.run(take(wanted))
    assert "erasure" not in [record["kind"] for record in records_of(entries_of(tmp_path)[-1])]


def test_a_gateway_without_authorities_erases_nothing(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        with pytest.raises(OrderUnauthorized):
            erase(inside, told.items(1, "inference"))


def test_an_order_must_name_what_is_there(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        (item, *_) = told.items(2, "inference")
        (boot,) = [each for each in told.items(2, "boot") if each["agt"] == {"ses": told.id}][-1:]
        start = told.items(2, "session-start")[0]
        cases = (
            ({**item, "rh": "A" * 43}, "erasure.mismatch"),
            ({**item, "seq": 4000}, "erasure.mismatch"),
            ({**item, "chn": "A" * 22}, "erasure.mismatch"),
            ({**item, "agt": {"ses": told.id}}, "erasure.mismatch"),
            ({**item, "agt": {"ses": told.id, "seq": item["agt"]["seq"] + 1}}, "erasure.mismatch"),
            ({**item, "agt": {"ses": "A" * 22, "seq": item["agt"]["seq"]}}, "erasure.mismatch"),
            (boot, "erasure.kind"),
            (start, "erasure.kind"),
        )
        for wrong, error in cases:
            with raises_code(error):
                erase(inside, [wrong])
        with raises_code("erasure.repeated"):
            erase(inside, [item, item])
        erase(inside, [{**item, "lvl": 1}])
        with raises_code("erasure.repeated"):
            erase(inside, [{**item, "lvl": 1, "basis": "again"}])
        erase(inside, [item])  # the content first, the record later
        with raises_code("erasure.repeated"):
            erase(inside, [{**item, "basis": "again"}])


def test_a_session_that_is_open_is_not_erased(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        session = SessionClient.start(inside, platform, openings=X25519PrivateKey.generate())
        session.say("hi")
        told = Told(session.id, X25519PrivateKey.generate(), session.bundle())
        with raises_code("erasure.session_open"):
            erase(inside, told.items(1, "inference"))


def test_without_a_durable_record_nothing_is_erased(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        inside.service.erasing.journal._failure = "no space left on device"
        with pytest.raises(JournalUnavailable):
            erase(inside, told.items(1, "inference"))
    openings = [e for e in entries_of(tmp_path)[-1] if isinstance(e, OpeningEntry)]
    assert {e.rh for e in openings} == set(told.answer["openings"])


@pytest.mark.parametrize("at", ["before any entry", "amid the entries", "before it is said"])
def test_what_was_ordered_and_logged_is_erased_at_the_next_start(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, at: str
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        items = told.items(2, "inference")
        gone = [text for text in told.texts if receipt_hash(text) in {item["rh"] for item in items}]
        real = erasing.erase_entries

        def dying(folder: Path, places: Sequence[object]) -> None:
            if at == "amid the entries":
                real(folder, places[:1])
            if at == "before it is said":
                real(folder, places)
            raise JournalUnavailable("killed here")

        with monkeypatch.context() as patched:
            patched.setattr(erasing, "erase_entries", dying)
            with pytest.raises(JournalUnavailable):
                erase(inside, items)
    with serving(platform, tmp_path) as inside:
        assert refused(verified(inside, bundle(inside, told), told.key)) == []
    data = stored(tmp_path)
    assert not any(text.encode() in data for text in gone)
    boots = entries_of(tmp_path)
    assert [r["kind"] for boot in boots for r in records_of(boot)].count("erasure") == 1
    assert [type(e) for e in boots[-1]].count(ErasedEntry) == 1


def test_an_order_that_was_never_logged_is_not_carried_out_and_can_be_given_again(
    platform: PlatformClient, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        wanted = request(inside, "erasure", {"del": told.items(2, "inference")})

        async def killed() -> None:
            raise asyncio.CancelledError

        # As if the process had died between the journal and the log: the leaf is never handed in.
        monkeypatch.setattr(type(inside.service.erasing.log._own), "on_durable", lambda self, entries: None)
        monkeypatch.setattr(type(inside.service.erasing), "_carry_out", lambda self, ordered: killed())
        with pytest.raises(BaseException):  # noqa: B017, PT011 - cancelled, whichever way the loop tells it
            inside.run(inside.service.erasing.take(wanted))
    monkeypatch.undo()
    with serving(platform, tmp_path) as inside:
        before = bundle(inside, told)
        assert {item["rh"] for item in told.items(2, "inference")} <= set(before["openings"])
        assert refused(verified(inside, before, told.key)) == []
        (answer,) = inside.run(inside.service.erasing.take(wanted))
        assert answer["new"] and answer["erased"] == 4
        assert refused(verified(inside, bundle(inside, told), told.key)) == []


def test_orders_are_taken_on_the_operators_socket_alone(platform: PlatformClient, tmp_path: Path) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
        wanted = request(inside, "erasure", {"del": told.items(1, "inference")}).to_bytes()
        public = inside.ask("POST", "/v1/orders", wanted)
        assert public.status == 404
        operator = operator_plane(inside.service)
        for body, status in ((wanted, 200), (wanted, 200), (b"{}", 400), (b"x" * (2 << 20), 413)):
            answer = inside.run(asgi(operator, "POST", "/v1/orders", body, {}))
            assert answer.status == status, answer


@pytest.mark.parametrize(
    "claims",
    [
        {"kind": "erasure"},
        {"kind": "erasure", "del": 7, "aut": "x"},
        {"kind": "erasure", "del": [7, {"seq": {}}, {"chn": 1, "seq": True}], "aut": "x"},
        {"kind": "hold", "tgt": {"a": 1}, "basis": [], "aut": 1},
        {"kind": "inference", "tgt": "A" * 22, "basis": "b", "aut": "x"},
    ],
)
def test_a_store_that_invents_orders_starts_and_obeys_none(
    platform: PlatformClient, tmp_path: Path, claims: dict
) -> None:
    with serving(platform, tmp_path) as inside:
        told = a_session(inside, platform)
    last = max(tmp_path.glob("*.seg"))
    writer = SegmentWriter(boot=bytes(16), number=int(last.stem) + 1, link=scan(last.read_bytes()).link)
    more = {"chn": "A" * 22, "seq": 3, "iat": 1}
    jws = f"e30.{b64u(canonical({**more, **claims}))}.e30"
    forged = [RecordEntry(jws=jws, jti=kind[:1] * 22, kind=kind, seq=3) for kind in ("erasure", "hold")]
    frames = b"".join(writer.frame(encode_entry(entry)) for entry in forged)
    segment_path(tmp_path, int(last.stem) + 1).write_bytes(writer.head + frames)
    with serving(platform, tmp_path) as inside:
        assert refused(verified(inside, bundle(inside, told), told.key)) == []
        assert erase(inside, told.items(2, "inference"))["new"]
