"""Sessions whose profile is narrowed while they run: once, twice, and one that is cut off in a narrowing.

A narrowing passes the points of its quote under the label ``<session>-<k>`` (``events:``, ``body:``, ``eventlog:``,
``quote:``, ``evidence:``), ``narrowing:<k>`` (the payload that is extended), ``document:<session>-statement-<k>``,
``manifest:<k>`` (the bytes beside the quote) and those of its record, ``policy-<k>``.
"""

from __future__ import annotations

import hashlib

from vectors.making import documents as docs
from vectors.making.encoding import b64u, canonical, sha256_name
from vectors.making.keys import seeded
from vectors.making.records import Members, Session
from vectors.making.scripts import boot, close, finish, inference, start
from vectors.making.story import Story

__all__ = [
    "cut_off",
    "narrow",
    "narrowed",
    "narrowed_twice",
    "normal_form",
    "record",
    "twice_and_once_recorded",
    "unrecorded",
    "wavering",
]


def normal_form(epoch: int) -> bytes:
    """Of the profile of an epoch, as far as anybody reads it."""
    return canonical({"semantics": "affiant.policy/1", "tools": [], "vectors": f"epoch {epoch}"})


def narrow(story: Story, told: Session) -> None:
    """The TD extends its register and is quoted again; the gateway appraises that and goes on with the new profile."""
    epoch, label = told.epoch + 1, f"{told.label}-{told.epoch + 1}"
    form = normal_form(epoch)
    payload: Members = {
        "dig": docs.profile_digest(form),
        "epoch": epoch,
        "fil": sha256_name(docs.PROFILES_FILE + str(epoch).encode("ascii")),
        "old": story.policy(told)["dig"],
    }
    story.policies.append(form)
    told.profile, told.epoch = {"dig": payload["dig"], "fil": payload["fil"]}, epoch
    told.replaced = payload["old"]
    event = {"rtmr": 3, "name": "affiant-policy", "payload": payload}
    told.later.append(story.faults.through(f"narrowing:{epoch}", event))
    _quote_again(story, told, label, epoch)
    told.ear = story.issue_ear(f"{told.label}-ear-{epoch}", told.supervisor)


def _quote_again(story: Story, told: Session, label: str, epoch: int) -> None:
    """The same keys, over a nonce of its own, with one event more."""
    supervisor = told.supervisor
    members = supervisor.statement | {"nonce": b64u(seeded(f"{label} nonce", 32))}
    members = story.faults.through(f"document:{told.label}-statement-{epoch}", members)
    bound = hashlib.sha384(docs.initdata(told.manifest_raw)).digest()
    events = docs.session_events(told.manifest, told.manifest_raw, told.activation_raw)
    parts = story.quoted("session", label, bound, [*events, *told.later], canonical(members))
    parts |= {
        "manifest": story.faults.through(f"manifest:{epoch}", told.manifest_raw),
        "activation": told.activation_raw,
    }
    supervisor.earlier.append(supervisor.evidence)
    supervisor.evidence = story.faults.through(f"evidence:{label}", docs.evidence(parts))


def record(story: Story, told: Session) -> None:
    """The supervisor's record of the narrowing."""
    members: Members = {
        "pol": story.policy(told),
        "old": told.replaced,
        "dif": sha256_name(b"affiant vectors: what is different"),
    }
    story.supervisor_says(told, f"policy-{told.epoch}", "policy", members)


def narrowed(story: Story) -> None:
    """A narrowing, and one answer under the profile after it."""
    boot(story)
    told = start(story)
    _once(story, told)
    finish(story, told, cseq=0)


def narrowed_twice(story: Story) -> None:
    """A second one, and an answer after it too."""
    boot(story)
    told = start(story)
    _once(story, told)
    _once(story, told)
    finish(story, told, cseq=1)


def _once(story: Story, told: Session) -> None:
    narrow(story, told)
    record(story, told)
    inference(story, told, step=f"answer-{told.epoch}", cseq=told.epoch - 1)


def wavering(story: Story) -> None:
    """Before it has the supervisor's record of a narrowing the gateway answers twice."""
    boot(story)
    told = start(story)
    narrow(story, told)
    for number, step in enumerate(("answer-1", "answer-late")):
        inference(story, told, step=step, cseq=number)
    record(story, told)
    finish(story, told, cseq=1)


def twice_and_once_recorded(story: Story) -> None:
    """The supervisor did not get the gateway's answer to a second narrowing, and ends the session without a record."""
    boot(story)
    told = start(story)
    _once(story, told)
    narrow(story, told)
    finish(story, told, cseq=0)


def unrecorded(story: Story) -> None:
    """The supervisor did not get the gateway's answer, and ends the session without a record of the narrowing."""
    boot(story)
    told = start(story)
    narrow(story, told)
    finish(story, told, cseq=-1)


def cut_off(story: Story) -> None:
    """The supervisor dies when the gateway has gone on to the new profile, and before its own record of that."""
    boot(story)
    told = start(story)
    narrow(story, told)
    close(story, told, why="lost")
