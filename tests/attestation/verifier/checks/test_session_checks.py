"""What a session did, act by act: commands, files and ports, each from what was begun to what became of it."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.story import Issued, Story, new_id
from tests.attestation.verifier.test_verify_bundle import judge, row
from tests.properties import thorough

from affiant.attestation.encoding import jws
from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.attestation.records.chain import ChainSigner
from affiant.attestation.records.task_label import TaskLabelMalformed, make_task_label
from affiant.attestation.statements.statement import session_statement
from affiant.attestation.verdict.verdict import State, Tier, Verdict
from affiant.attestation.verifier.report.text import render

Act = Callable[["Acts"], object]
TREE = sha256_name(b"a tree")


@dataclass
class Acts(Story):
    """A session whose supervisor does ``acts``, in order, before it ends."""

    acts: Sequence[Act] = ()
    late: Sequence[Act] = ()
    """Acts after the supervisor's end."""
    done: dict[str, Issued] = field(default_factory=dict)

    def by_supervisor(self, step: str, kind: str, members: dict, *more: object, **named: object) -> Issued:
        ending = step == "session-end"
        for act in self.acts if ending else ():
            act(self)
        issued = self.done[step] = super().by_supervisor(step, kind, members, *more, **named)
        for act in self.late if ending else ():
            act(self)
        return issued

    def intent(self, step: str, **hidden: object) -> Issued:
        members = {"act": {"typ": "exec"}, "iso": self.iso, "ph": "intent"}
        return self.by_supervisor(step, "exec", members, {"act": {"name": "make", **hidden}})

    def outcome(self, step: str, *of: str, **hidden: object) -> Issued:
        members = {"act": {"typ": "exec", "end": "complete"}, "iso": self.iso, "ph": "outcome"}
        return self.by_supervisor(
            step, "exec", members | self.par(*of), {"act": {"name": "make", **hidden}} if hidden else {}
        )

    def file(self, step: str, way: str = "in", **hidden: object) -> Issued:
        moved = {"path": "/workspace/a", "dig": TREE, "n": 2, "len": 7} | hidden
        shown = {name: value for name, value in moved.items() if value is not None}
        return self.by_supervisor(step, "file", {"mov": {"dir": way}}, {"mov": shown})

    def file_failed(
        self, step: str, *of: str, way: str = "in", end: str = "failed", **hidden: object
    ) -> Issued:
        members = {"mov": {"dir": way}, "ph": end}
        return self.by_supervisor(step, "file", members | self.par(*of), {"mov": hidden})

    def opened(self, step: str, **hidden: object) -> Issued:
        return self.by_supervisor(step, "port", {"prt": {}, "ph": "opened"}, {"prt": hidden})

    def closed(self, step: str, *of: str, **hidden: object) -> Issued:
        return self.by_supervisor(step, "port", {"prt": {}, "ph": "closed"} | self.par(*of), {"prt": hidden})

    def par(self, *of: str) -> dict[str, object]:
        names = [str(self.done[step].payload["jti"]) if step in self.done else new_id() for step in of]
        return {"par": names} if names else {}


@dataclass
class TwoChains(Acts):
    """The supervisor's keyset names a second chain, of which record 100 is the step ``second``."""

    def make_session(self) -> None:
        second = new_id()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(
                "tests.attestation.story.session_statement",
                lambda **said: canonical(
                    {**parse_object(session_statement(**said)), "chn": [said["chn"], second]}
                ),
            )
            super().make_session()
        self.chains = [
            ChainSigner(
                signer=self.session_signer,
                statement=self.session_statement,
                chn=chn,
                evd=self.supervisor.evd,
                random_bytes=self.random_bytes,
                clock=self.clock,
            )
            for chn in (self.supervisor.chn, second)
        ]
        self.chains[1]._next = 100  # after all of the first chain

    def by_supervisor(self, step: str, *more: object, **named: object) -> Issued:
        self.supervisor = self.chains[step == "second"]
        issued = super().by_supervisor(step, *more, **named)
        self.supervisor = self.chains[0]
        return issued


def command(name: str) -> list[Act]:
    return [lambda s: s.intent(f"{name}-i"), lambda s: s.outcome(f"{name}-o", f"{name}-i", out=TREE)]


def failing(name: str) -> list[Act]:
    return [lambda s: s.file(f"{name}-f", n=9), lambda s: s.file_failed(f"{name}-o", f"{name}-f", n=3, len=1)]


def serving(name: str, number: int) -> list[Act]:
    return [
        lambda s: s.opened(f"{name}-p", num=number),
        lambda s: s.closed(f"{name}-c", f"{name}-p", num=number, **{"in": 5, "out": 9}),
    ]


def moving(name: str, way: str) -> list[Act]:
    return [lambda s: s.file(f"{name}-m", way)]


EVERY: list[Act] = [
    *command("a"),
    *command("b"),
    *moving("c", "in"),
    *moving("d", "removed"),
    *failing("e"),
    *serving("f", 8080),
    *serving("g", 8080),
    *moving("h", "out"),
]


def verdict_of(*acts: Act, late: Sequence[Act] = ()) -> Verdict:
    return judge(Acts(acts=acts, late=late).bytes())


def test_a_session_of_many_acts_holds() -> None:
    verdict = verdict_of(*EVERY)
    found = row(verdict, "session.intents")
    assert (found.state, found.tier) == (State.HELD, Tier.AFFIRMING)
    assert not [check.code for check in verdict.checks if check.state is State.REFUSED]


def test_acts_are_counted_for_the_first_paragraph() -> None:
    uses = verdict_of(*EVERY).summary.uses
    assert uses["command"] == {"python3": 1, "make": 2}
    assert uses["file"] == {"in": 2, "removed": 1, "out": 1} and uses["port"] == {"8080": 2}
    text = " ".join(render(verdict_of(*EVERY)).split())
    assert "file operations 'in' (2), 'out' (1), 'removed' (1); port '8080' (2)" in text


def test_what_is_not_disclosed_is_not_named() -> None:
    verdict = verdict_of(
        lambda s: s.opened("p"), lambda s: s.closed("c", "p"), lambda s: s.file("f", path=None)
    )
    assert verdict.summary.uses["port"] == {"(not disclosed)": 1}
    assert row(verdict, "session.intents").tier is Tier.AFFIRMING


def test_a_port_that_is_never_closed_and_a_command_without_outcome_are_warnings() -> None:
    for act in (lambda s: s.opened("p", num=1), lambda s: s.intent("i")):
        found = row(verdict_of(act), "session.intents")
        assert (found.state, found.tier, len(found.where)) == (State.HELD, Tier.WARNING, 1)


@pytest.mark.parametrize(
    "acts",
    [
        [*command("a"), lambda s: s.outcome("again", "a-i")],
        [lambda s: s.outcome("o")],
        [lambda s: s.outcome("o", "elsewhere")],
        [lambda s: s.outcome("o", "later"), lambda s: s.intent("later")],
        [*[lambda s: s.intent("i"), lambda s: s.intent("j")], lambda s: s.outcome("o", "i", "j")],
        [lambda s: s.file("f"), lambda s: s.outcome("o", "f")],
        [lambda s: s.intent("i"), lambda s: s.file_failed("o", "i")],
        [lambda s: s.intent("i"), lambda s: s.closed("c", "i")],
        [lambda s: s.opened("p"), lambda s: s.outcome("o", "p")],
        [lambda s: s.intent("i"), lambda s: s.outcome("o", "i", name="another")],
        [lambda s: s.intent("i", arg=TREE), lambda s: s.outcome("o", "i", arg=sha256_name(b""))],
        [*serving("a", 80), lambda s: s.closed("c", "a-p")],
        [lambda s: s.closed("c")],
        [lambda s: s.closed("c", "elsewhere", num=80)],
        [lambda s: s.opened("p", num=80), lambda s: s.opened("q", num=80)],
        [lambda s: s.opened("p", num=80), lambda s: s.closed("c", "p", num=81)],
        [lambda s: s.file("f", n=0, len=1)],
        [lambda s: s.file("f"), lambda s: s.file_failed("o", "f", n=0, len=1)],
        [lambda s: s.file("f"), lambda s: s.file_failed("o", "f", n=3)],
        [lambda s: s.file("f"), lambda s: s.file_failed("o", "f", len=8)],
        [lambda s: s.file("f"), lambda s: s.file_failed("o", "f", path="/workspace/b")],
        [lambda s: s.file("f"), lambda s: s.file_failed("o", "f", way="out")],
        [*failing("a"), lambda s: s.file_failed("again", "a-f")],
        [lambda s: s.file_failed("o")],
    ],
)
def test_an_act_that_contradicts_itself_is_refused(acts: list[Act]) -> None:
    found = row(verdict_of(*acts), "session.intents")
    assert (found.state, found.reason) == (State.REFUSED, "session.intent")


@pytest.mark.parametrize(("step", "state"), [("outcome", State.HELD), ("second", State.REFUSED)])
def test_an_outcome_names_an_intent_of_its_own_chain(step: str, state: State) -> None:
    """A supervisor has one chain; a keyset may name more, and numbers of two chains have no order."""
    story = TwoChains(acts=[lambda s: s.file("intent", n=9), lambda s: s.file_failed(step, "intent", n=1)])
    assert row(judge(story.bytes()), "session.intents").state is state


@pytest.mark.parametrize("late", [command("z"), moving("z", "in"), serving("z", 80)])
def test_an_act_after_the_end_is_refused(late: list[Act]) -> None:
    verdict = verdict_of(late=late)
    assert row(verdict, "chain.end").state is State.REFUSED


# -- the task label --------------------------------------------------------------------------------------------


LABEL = {"workflow": "nightly", "task": "summarise", "attempt": 2, "parent": "plan-7"}


def labelled(**values: object) -> Acts:
    chance = random.Random(1)
    return Acts(task=make_task_label(values, random_bytes=chance.randbytes))


def test_the_task_label_is_in_the_first_paragraph_and_in_the_document() -> None:
    verdict = judge(labelled(**LABEL).bytes())
    assert not [check.code for check in verdict.checks if check.state is State.REFUSED]
    text = " ".join(render(verdict).split())
    assert "Task label: workflow 'nightly', task 'summarise', attempt '2', parent 'plan-7'." in text
    uses = verdict.to_json()["summary"]["uses"]
    assert uses["workflow"] == {"nightly": 1} and uses["attempt"] == {"2": 1}


def test_a_label_that_is_not_disclosed_says_nothing() -> None:
    story = labelled(**LABEL)
    shown = story.task
    story.task = type(shown)(shown.digests, ())
    verdict = judge(story.bytes())
    assert not {"workflow", "task", "attempt", "parent"} & verdict.summary.uses.keys()
    assert row(verdict, "peer.bound").state is State.HELD and "nightly" not in repr(shown)


def test_one_member_can_be_shown_alone() -> None:
    story = labelled(**LABEL)
    story.task = type(story.task)(story.task.digests, story.task.disclosures[1:2])
    assert "Task label: task 'summarise'." in " ".join(render(judge(story.bytes())).split())


@pytest.mark.parametrize("how", ["another", "without", "added"])
def test_a_start_record_with_another_label_than_was_activated_is_refused(how: str) -> None:
    other = make_task_label({"task": "another"}, random_bytes=random.Random(2).randbytes)

    def alter(step: str, members: dict) -> dict:
        if step != "start":
            return members
        changed = {name: value for name, value in members.items() if name != "tsk"}
        return changed if how == "without" else changed | {"tsk": {"_sd": list(other.digests)}}

    story = Acts(alter=alter) if how == "added" else labelled(**LABEL)
    story.alter = alter
    if story.task is not None:
        story.task = type(story.task)(story.task.digests, ())
    found = row(judge(story.bytes()), "peer.bound")
    assert (found.state, found.reason) == (State.REFUSED, "peer.unbound")


@pytest.mark.parametrize(
    "values", [{}, {"task": ""}, {"task": "x" * 257}, {"attempt": -1}, {"attempt": "1"}, {"colour": "red"}]
)
def test_a_label_of_another_form_is_not_made(values: dict[str, object]) -> None:
    with pytest.raises(TaskLabelMalformed):
        make_task_label(values, random_bytes=bytes)


# -- any order of acts -----------------------------------------------------------------------------------------


@st.composite
def orders(draw: st.DrawFn) -> list[Act]:
    """Acts in any order in which each outcome follows its intent, and ports of one number follow each other."""
    made: list[list[Act]] = []
    for number in range(draw(st.integers(0, 5))):
        name = f"act{number}"
        made.append(
            draw(
                st.sampled_from(
                    [
                        command(name),
                        moving(name, "in"),
                        moving(name, "out"),
                        failing(name),
                        serving(name, 1 + number),
                    ]
                )
            )
        )
    order = draw(st.permutations([index for index, steps in enumerate(made) for _ in steps]))
    waiting = [iter(steps) for steps in made]
    return [next(waiting[index]) for index in order]


@given(orders())
@thorough(60, quick=5)
def test_any_order_of_acts_holds(acts: list[Act]) -> None:
    verdict = verdict_of(*acts)
    assert row(verdict, "session.intents").tier is Tier.AFFIRMING
    assert not [check.code for check in verdict.checks if check.state is State.REFUSED]


@given(orders(), st.sampled_from(["removed", "doubled", "swapped"]), st.randoms(use_true_random=False))
@thorough(60, quick=5)
def test_a_record_that_is_removed_doubled_or_moved_is_found(
    acts: list[Act], how: str, chance: random.Random
) -> None:
    """After it was signed: nobody who holds the bundle can change what was done."""
    story = Acts(acts=acts)
    story.tell()
    at = chance.randrange(1, len(story.session_records) - 1)
    record = story.session_records[at]
    if how == "removed":
        del story.session_records[at]
    elif how == "doubled":
        story.session_records.insert(at, record)
    else:
        other = story.session_records[at - 1]
        story.session_records[at - 1 : at + 1] = [
            in_place_of(record, other, story),
            in_place_of(other, record, story),
        ]
    assert judge(story.bytes()).exit_code == 20


def in_place_of(other: Issued, record: Issued, story: Story) -> Issued:
    """``other`` with the number and the link of ``record``, signed again by the same key."""
    payload = {**other.payload, "seq": record.payload["seq"], "prev": record.payload["prev"]}
    return Issued(jws.sign(story.session_signer, payload, typ="eat+jwt"), other.disclosures, payload)
