"""Longer stories: epochs, refusals, tools and secrets, two sessions at once."""

from __future__ import annotations

from collections.abc import Callable

from vectors.making.encoding import sha256_name
from vectors.making.records import Session
from vectors.making.scripts import CHAT, boot, execute, finish, ids, inference, start
from vectors.making.story import Story

__all__ = ["actions", "epochs", "model_answers", "two_sessions"]


def epochs(story: Story) -> None:
    """A session that lasts for three epochs: both chains keep their rhythm."""
    boot(story)
    told = start(story)
    for number in range(1, 4):
        story.now += 55
        for says, party, who in (
            (story.gateway_says, story.gateway, "gateway"),
            (None, told.supervisor, "session"),
        ):
            count = party.records[-1].payload["seq"] + 1
            members = {"inf": 0, "n": count}
            step = f"{who}-epoch-{number}"
            if says is not None:
                says(step, "epoch", members)
            else:
                story.supervisor_says(told, step, "epoch", members)
        if number == 2:
            inference(story, told)
    finish(story, told)
    story.gateway_says("gateway-end", "end", {"why": "drain"})
    story.before("after-end")


def actions(story: Story) -> None:
    """A session that was refused twice, called tools and used a secret."""
    boot(story)
    told = start(story)
    _refusals(story, told)
    _tools(story, told)
    _secret(story, told)
    story.before("outcomes-done")
    finish(story, told, cseq=0)


def _refusals(story: Story, told: Session) -> None:
    denied = story.policy(told, "deny")
    story.gateway_says(
        "refusal",
        "refusal",
        {"pol": denied, "rsn": "policy.model", "req": dict(CHAT), "res": {"end": "complete", "st": 403}},
        {
            "req": {"dig": sha256_name(b"{}"), "len": 2},
            "res": {"dig": sha256_name(b'{"error":{}}'), "len": 12},
        },
        of=told,
        cseq=0,
    )
    story.supervisor_says(
        told,
        "egress-refusal",
        "refusal",
        {"pol": denied, "act": {"typ": "egress"}, "rsn": "policy.egress"},
        {"act": {"tgt": "https://elsewhere.invalid:443/"}},
    )


def _tools(story: Story, told: Session) -> None:
    allowed = story.policy(told)
    call = {"name": "read_file", "arg": sha256_name(b'{"path":"/workspace/a"}')}
    story.gateway_says("tool-call", "tool", {"act": {"typ": "tool"}, "pol": allowed}, {"act": call}, of=told)
    begun = story.supervisor_says(
        told, "tool-intent", "tool", {"act": {"typ": "tool"}, "pol": allowed, "ph": "intent"}, {"act": call}
    )
    story.supervisor_says(
        told,
        "tool-outcome",
        "tool",
        {
            "act": {"end": "complete", "typ": "tool"},
            "pol": allowed,
            "ph": "outcome",
            "par": ids(begun),
        },
        {"act": {**call, "out": sha256_name(b"contents")}},
    )


def tool_gate(story: Story) -> None:
    """At the gateway's tool gate: a listing, and a call from intent to outcome."""
    boot(story)
    told = start(story)
    allowed = story.policy(told)
    call = {"name": "kubectl_get", "arg": sha256_name(b'{"kind":"pods"}'), "tgt": "mcp:k8s"}
    story.gateway_says(
        "gate-list",
        "tool",
        {"act": {"end": "complete", "typ": "tool"}, "pol": story.policy(told, "redact")},
        {"act": {"tgt": "tools/list", "arg": sha256_name(b"{}"), "out": sha256_name(b'{"tools":[]}')}},
        of=told,
        cseq=0,
    )
    begun = story.gateway_says(
        "gate-intent",
        "tool",
        {"act": {"typ": "tool"}, "pol": allowed, "ph": "intent"},
        {"act": call},
        of=told,
    )
    story.gateway_says(
        "gate-outcome",
        "tool",
        {"act": {"end": "complete", "typ": "tool"}, "pol": allowed, "ph": "outcome", "par": ids(begun)},
        {"act": {**call, "out": sha256_name(b'{"content":[]}')}},
        of=told,
        cseq=1,
    )
    execute(story, told)
    story.before("gate-done")
    finish(story, told, cseq=1)


def _secret(story: Story, told: Session) -> None:
    allowed, sec = story.policy(told), [{"ver": "1"}]
    target = {"tgt": "POST https://api.invalid:443/v1/items", "spki": sha256_name(b"a peer's key")}
    named = {"sec[0]": {"ref": "local:TOKEN", "rule": "secret.api"}}
    used = story.supervisor_says(
        told,
        "secret",
        "secret",
        {"act": {"typ": "secret"}, "pol": allowed, "sec": sec},
        {"act": {"tgt": target["tgt"]}, **named},
    )
    story.supervisor_says(
        told,
        "egress-outcome",
        "egress",
        {
            "act": {"end": "complete", "typ": "egress"},
            "pol": allowed,
            "sec": sec,
            "ph": "outcome",
            "par": ids(used),
        },
        {"act": target, **named},
    )


def two_sessions(story: Story) -> None:
    """Two sessions, one after the other begun, side by side in one gateway chain."""
    boot(story)
    one = start(story)
    other = start(story, "second")
    inference(story, one)
    inference(story, other, request=b'{"model":"echo"}', response=b'{"choices":[]}')
    execute(story, other)
    finish(story, one)
    finish(story, other)


def forwarded_headers(story: Story) -> None:
    """A session whose request had headers that the gateway forwarded."""
    boot(story)
    told = start(story)
    headers = {"anthropic-beta": "pdfs-2024-09-25", "anthropic-version": "2023-06-01"}
    inference(story, told, more={"req": {"m": "POST", "p": "/v1/messages", "hdr": headers}})
    finish(story, told, cseq=0)


def model_answers(*answers: str | None) -> Callable[[Story], None]:
    """A session in which the model ``echo`` is asked for, and answers under these names."""

    def script(story: Story) -> None:
        boot(story)
        told = start(story)
        for at, name in enumerate(answers):
            inference(story, told, step=f"inference-{at}", cseq=at, answered={"ans": name})
        finish(story, told, cseq=len(answers) - 1)

    return script
