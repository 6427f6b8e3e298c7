"""Both verifiers judge commands, files and ports alike: acts that contradict themselves, and a session of very many."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.story import NOW, Clock, trust_bytes
from tests.attestation.verifier.checks.test_erasure_checks import AUTHORITY, Ordered, without
from tests.attestation.verifier.checks.test_session_checks import (
    Acts,
    TwoChains,
    command,
    failing,
    labelled,
    moving,
    serving,
)
from tests.attestation.verifier_js.as_periods import (
    as_period,
    period_pinning_its_log,
    python_says_of_period,
)
from tests.attestation.verifier_js.conftest import Question, Verdicts
from tests.attestation.verifier_js.test_agreement import disagreements, pinning_its_log, python_says
from tests.properties import tried

from affiant.attestation.encoding.keys import public_jwk

Ask = Callable[[Sequence[Question]], Verdicts]
LATER = NOW + timedelta(minutes=10)


def asked(story: Acts) -> Question:
    return pinning_its_log(Question(story.bytes(), trust_bytes(), LATER))


def intents_of(verdict: dict[str, Any]) -> dict[str, Any]:
    return next(row for row in verdict["checks"] if row["code"] == "session.intents")


def some_of(chance: random.Random, **values: Sequence[object]) -> dict[str, object]:
    """Each member with one of its values, or without one."""
    chosen = {name: chance.choice([*some, None]) for name, some in values.items()}
    return {name: value for name, value in chosen.items() if value is not None}


def any_act(chance: random.Random, number: int, before: Sequence[str]) -> Callable[[Acts], object]:
    """An act that may contradict any before it."""
    step = f"act-{number}"
    of = chance.sample([*before, "elsewhere"], k=min(chance.choice([0, 1, 1, 1, 1, 2]), len(before) + 1))
    name = some_of(chance, name=["make", "sh"], arg=["sha256:" + "1" * 64])
    size = some_of(chance, path=["/a", "/b"], n=[0, 1, 2], len=[0, 1, 2])
    port = some_of(chance, num=[80, 81])
    acts: list[Callable[[Acts], object]] = [
        lambda s: s.intent(step, **name),
        lambda s: s.outcome(step, *of, **name),
        lambda s: s.file(
            step, chance.choice(["in", "out"]), **({"path": None, "n": None, "len": None} | size)
        ),
        lambda s: s.file_failed(step, *of, way=chance.choice(["in", "in", "out"]), **size),
        lambda s: s.opened(step, **port),
        lambda s: s.closed(step, *of, **port, **some_of(chance, **{"in": [0, 5], "out": [9]})),
    ]
    return chance.choice(acts)


def test_any_acts_are_judged_alike(judge_all: Ask) -> None:
    """Most contradict themselves; some are whole, some leave something open."""
    chance = random.Random(15)
    questions = []
    for _ in range(tried(300, quick=40)):
        steps = [f"act-{number}" for number in range(chance.randrange(1, 6))]
        acts = [any_act(chance, number, steps[:number]) for number in range(len(steps))]
        questions.append(asked(Acts(acts=acts)))
    found: Counter[object] = Counter()
    for question, theirs in zip(questions, judge_all(questions), strict=True):
        ours = python_says(question)
        assert not disagreements(ours, dict(theirs))
        row = intents_of(ours)
        found[row["state"], row["tier"]] += 1
        assert row["detail"].split(";")[0] in intents_of(dict(theirs))["detail"] or row["state"] == "refused"
    assert set(found) == {
        ("held", "affirming"),
        ("held", "warning"),
        ("refused", "contraindicated"),
    }


class Erased(Ordered, Acts):
    """Acts of which some records are erased by order, after the close."""

    chance: random.Random

    def close(self) -> None:
        Acts.close(self)
        kinds = ("exec", "file", "port")
        content = [record for record in self.session_records if record.payload["kind"] in kinds]
        self.gone = self.chance.sample(content, k=self.chance.randrange(1, len(content)))
        self.order("erasure", {"del": [self.item(record) for record in self.gone]})


def test_what_is_erased_by_order_makes_no_act_contradictory(judge_all: Ask) -> None:
    """Whatever of them is gone; and both verifiers say the same of what is left."""
    trust = trust_bytes(erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}])
    questions = []
    for number in range(tried(60, quick=10)):
        parts = [
            command("a"),
            serving("b", 80),
            failing("c"),
            serving("d", 80),
            moving("e", "in"),
            command("f"),
        ]
        story = Erased(acts=[act for part in parts for act in part])
        story.chance = random.Random(number)
        whole = story.tell().bundle()
        questions.append(pinning_its_log(Question(without(whole, *story.gone).to_bytes(), trust, LATER)))
    for question, theirs in zip(questions, judge_all(questions), strict=True):
        ours = python_says(question)
        assert not disagreements(ours, dict(theirs))
        assert intents_of(ours)["state"] == "held"


def test_an_order_excuses_one_port_that_was_opened_twice_and_no_second(judge_all: Ask) -> None:
    trust = trust_bytes(erasure_authorities=[{"value": public_jwk(AUTHORITY.public_key)}])
    opened = [lambda s, step=f"p{number}": s.opened(step, num=80) for number in range(3)]
    for count, state in ((2, "held"), (3, "refused")):
        story = Erased(acts=[*opened[:count], *moving("m", "in")])
        story.chance = random.Random(1)
        story.chance.sample = lambda content, k: content[-1:]  # files, and no port
        whole = story.tell().bundle()
        question = pinning_its_log(Question(without(whole, *story.gone).to_bytes(), trust, LATER))
        (theirs,) = judge_all([question])
        assert (intents_of(python_says(question))["state"], intents_of(dict(theirs))["state"]) == (
            state,
            state,
        )


def test_an_outcome_names_an_intent_of_its_own_chain(judge_all: Ask) -> None:
    for step, state in (("outcome", "held"), ("second", "refused")):
        story = TwoChains(
            acts=[lambda s: s.file("intent", n=9), lambda s, step=step: s.file_failed(step, "intent", n=1)]
        )
        question = asked(story)
        (theirs,) = judge_all([question])
        assert not disagreements(python_says(question), dict(theirs))
        assert intents_of(dict(theirs))["state"] == state


def test_a_task_label_is_shown_alike(judge_all: Ask) -> None:
    question = asked(labelled(workflow="nightly", task="sum\u202emarise", attempt=0, parent="plan-7"))
    (theirs,) = judge_all([question])
    ours = python_says(question)
    assert not disagreements(ours, dict(theirs))
    assert ours["summary"]["uses"]["attempt"] == {"0": 1} and ours["summary"] == theirs["summary"]


class Fast(Clock):
    """A thousand records a second."""

    def step(self, seconds: float = 1) -> None:
        super().step(seconds / 1000)


@pytest.mark.slow
def test_a_session_of_1000_commands_and_10000_files_holds_in_both_forms(
    judge_all: Ask, tmp_path: Path
) -> None:
    acts = [act for number in range(1000) for act in command(f"command-{number}")]
    acts += [act for number in range(10_000) for act in moving(f"file-{number}", "in")]
    acts += [
        act for number in range(100) for act in (*serving(f"port-{number}", 8080), *failing(f"x-{number}"))
    ]
    story = Acts(acts=acts, clock=Fast())
    single = asked(story)
    archive = as_period(single.bundle, tmp_path)
    assert archive is not None
    period = period_pinning_its_log(
        replace(single, bundle=archive, trust=trust_bytes(), period=True), tmp_path
    )
    theirs = judge_all([single, period])
    for ours, other in zip(
        (python_says(single), python_says_of_period(period, tmp_path)), theirs, strict=True
    ):
        uses = {"command": {"make": 1000, "python3": 1}, "file": {"in": 10_100}, "port": {"8080": 100}}
        for verdict in (ours, other):
            assert not [row["code"] for row in verdict["checks"] if row["state"] == "refused"]
            assert intents_of(dict(verdict))["tier"] == "affirming"
            assert {name: verdict["summary"]["uses"][name] for name in uses} == uses
