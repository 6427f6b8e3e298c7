"""Archives whose lines and leaves stand otherwise than an exporter writes them, for the rules along a log."""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

from tests.attestation.narrowed_story import NarrowedStory
from tests.attestation.period_builder import build, sorted_records
from tests.attestation.story import NOW, Issued, Story, link, trust_bytes
from tests.attestation.verifier_js.conftest import Question

from affiant.attestation.encoding.keys import public_jwk

LATER = NOW + timedelta(hours=1)
BEFORE = NOW - timedelta(days=1)


def erasures() -> Any:
    return importlib.import_module("tests.attestation.verifier.checks.test_erasure_checks")


def trust_of(story: Story, **changes: object) -> bytes:
    """The log pinned by its key, the authority of the orders accepted."""
    pins = {"log": [{"value": story.log_signer.verifier.vkey()}]}
    authority = {"erasure_authorities": [{"value": public_jwk(erasures().AUTHORITY.public_key)}]}
    return trust_bytes(**(pins | authority | changes))


class Long(Story):
    """Forty refusals more."""

    def close(self) -> None:
        request = {"req": {"m": "POST", "p": "/x"}, "res": {"st": 403, "end": "complete"}}
        for number in range(40):
            members = {"pol": self._pol("deny"), "rsn": "policy.model", **request}
            self.by_gateway(f"more-{number}", "refusal", members)
        super().close()


class Gapped(Story):
    """A gap record that knows of more of the supervisor's chain than was logged."""

    def close(self) -> None:
        super().close()
        last = {"chn": self.supervisor.chn, "seq": 99, "rh": link("the last")}
        self.by_gateway("gap", "gap", {"lst": last, "src": "untrusted-store"}, of_session=False)


class Archives:
    """Builds them in one folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.questions: dict[str, Question] = {}

    def add(self, name: str, story: Story, *, trust: bytes | None = None, **how: Any) -> Question:
        path = build(self._folder / str(len(self.questions)), story, **how)
        asked = Question(path.read_bytes(), trust or trust_of(story), LATER, since=BEFORE, period=True)
        self.questions[name] = asked
        return asked


def named(folder: Path) -> dict[str, Question]:
    """One archive for each way."""
    archives = Archives(folder)
    _of_orders(archives)
    _of_lines(archives)
    return archives.questions


def _of_orders(archives: Archives) -> None:
    def erased(told: Any) -> Issued:
        return told.order("erasure", {"del": [told.item(told.the("inference"))]})

    def held(told: Any) -> Issued:
        return told.order("hold", {"tgt": told.session, "basis": "a case"})

    story = erasures().story_with(erased)
    records = sorted_records(story)
    gone = [at for at, each in enumerate(records) if each.payload["kind"] == "inference"]
    archives.add("an order that is not logged", story, log=_without(records, "erasure"), withhold=gone)
    story = erasures().story_with(lambda told: (held(told), erased(told)))
    records = sorted_records(story)
    archives.add("a hold broken, a refusal not logged", story, log=_without(records, "refusal"))
    archives.add("a hold that is not logged", story, log=_without(records, "hold"))
    hold = next(each for each in records if each.payload["kind"] == "hold")
    archives.add("a hold again, after what it forbids", story, records=[*records, hold], log=records)
    other = trust_of(story, log=[{"value": Story().tell().log_signer.verifier.vkey()}])
    archives.add("a hold broken, in a log that nobody accepts", story, trust=other)
    erasure = next(each for each in records if each.payload["kind"] == "erasure")
    archives.add(
        "an order twice in lines and log", story, records=[*records, erasure], log=[*records, erasure]
    )


def _of_lines(archives: Archives) -> None:
    story = Long().tell()
    records = sorted_records(story)
    few = [each for at, each in enumerate(records) if not 15 <= at < 40]
    archives.add("many that are not logged, then one withheld", story, log=few, withhold=[45, 50])
    archives.add("leaves in reverse", story, records=records, log=records[::-1])
    archives.add("one leaf twice, without its record", story, log=[*records, records[3]], withhold=[3])
    archives.add("lines and leaves twice", story, records=[*records, *records])
    gapped = Gapped().tell()
    supervisors = [at for at, each in enumerate(sorted_records(gapped)) if each.payload["role"] == "session"]
    archives.add("a gap of a chain without a record", gapped, withhold=supervisors)
    boot, *rest = records
    late = archives.add("all dated after the instant", story, records=[rest[0], boot, *rest[1:]])
    archives.questions["all dated after the instant"] = replace(late, at=NOW - timedelta(seconds=299))
    narrowed = NarrowedStory().tell()
    policies = [at for at, each in enumerate(sorted_records(narrowed)) if each.payload["kind"] == "policy"]
    archives.add("narrowings withheld", narrowed, withhold=policies)


def _without(records: Sequence[Issued], kind: str) -> list[Issued]:
    return [each for each in records if each.payload["kind"] != kind]


# -- by chance -------------------------------------------------------------------------------------------------------


def by_chance(folder: Path, *, seed: int, count: int) -> dict[str, Question]:
    """As many archives whose lines and leaves are dropped, doubled, moved and withheld, asked in different ways."""
    chance, archives = random.Random(seed), Archives(folder)
    for number in range(count):
        story = chance.choice(list(_stories(chance)))()
        records = sorted_records(story)
        lines = _muddled(chance, records)
        log = _muddled(chance, records) if chance.random() < 0.6 else lines
        least = chance.choice([0, 0, 0.05, 0.3])
        asked = archives.add(
            str(number),
            story,
            trust=chance.choice(
                [trust_of(story), trust_of(story, erasure_authorities=...), trust_of(story, log=...)]
            ),
            records=lines,
            log=log,
            withhold=[at for at in range(len(lines)) if chance.random() < least],
        )
        archives.questions[str(number)] = replace(
            asked,
            at=NOW + timedelta(seconds=chance.choice([3600, 500, 10])),
            since=chance.choice([BEFORE, None, NOW + timedelta(seconds=chance.randrange(30))]),
            until=chance.choice([LATER, None, NOW + timedelta(seconds=chance.randrange(30))]),
            session=chance.choice([None, None, story.session, "A" * 22]),
            request=chance.choice([None, b"another body"]),
        )
    return archives.questions


def _stories(chance: random.Random) -> Iterator[Callable[[], Any]]:
    def orders(told: Any) -> None:
        given = [
            ("hold", {"tgt": told.session, "basis": "a case"}),
            ("erasure", {"del": [told.item(told.the("inference"), chance.choice([1, 2]))]}),
            ("erasure", {"del": [told.item(told.gateway_records[-1], 3)]}),
        ]
        for kind, members in chance.sample(given, chance.randrange(1, 4)):
            told.order(kind, members)

    yield lambda: Story().tell()
    yield lambda: NarrowedStory(count=chance.choice([1, 2])).tell()
    yield lambda: NarrowedStory(steps=("narrow", "answer", "policy")).tell()
    yield lambda: erasures().story_with(orders)
    yield lambda: erasures().story_with(orders)


def _muddled(chance: random.Random, records: Sequence[Issued]) -> list[Issued]:
    found = list(records)
    for _ in range(chance.choice([0, 0, 1, 2, 3])):
        at, other = chance.randrange(len(found)), chance.randrange(len(found))
        match chance.randrange(4):
            case 0 if len(found) > 3:
                del found[at]
            case 1:
                found.insert(other, found[at])
            case 2:
                found[at], found[other] = found[other], found[at]
            case _:
                found.insert(other, found.pop(at))
    return found
