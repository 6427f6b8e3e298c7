"""Class *session*: both signers' accounts of a session agree, and leave nothing out."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import WITHOUT, one
from vectors.cases.valid import lost, lost_unheard
from vectors.making.documents import START, identifier
from vectors.making.encoding import link, sha256_name
from vectors.making.faults import put, take
from vectors.making.scripts import inference
from vectors.making.stories import actions, tool_gate
from vectors.making.story import Story

__all__ = ["CASES"]

_OTHER = link(b"another record")
_START = {"session.start": "session.start"}
_COUNTER = {"session.counter": "session.counter"}
_CLOSE = {"session.close": "session.close"}
_SEALED = {"session.sealed": "session.after_close"}
_PEER = {"session.peer": "session.peer"}
_INTENT = {"session.intents": "session.intent"}
_DECISION = {"session.decisions": "session.decision"}
_ACTIONS: dict[str, Any] = {"base": "valid/actions", "script": actions}
_LOST: dict[str, Any] = {"base": "valid/lost", "script": lost}
_UNHEARD: dict[str, Any] = {"base": "valid/lost-unheard", "script": lost_unheard}
_GATE: dict[str, Any] = {"base": "valid/tool-gate", "script": tool_gate}


def _before_the_start(story: Story) -> None:
    inference(story, story.sessions["session"], step="early")


def _linked_backwards() -> dict[str, Any]:
    """The close follows the supervisor's first record, although what came before it followed a later one."""
    first: dict[str, Any] = {}

    def remember(story: Story) -> None:
        first.update(story.sessions["session"].supervisor.records[0].head)

    return {"before:close": remember, "members:close": lambda members: {**members, "peer": dict(first)}}


def _linked_to_its_own() -> dict[str, Any]:
    last: dict[str, Any] = {}

    def remember(story: Story) -> None:
        last.update(story.sessions["session"].gateway_records[-1].head)

    return {"before:close": remember, "members:close": lambda members: {**members, "peer": dict(last)}}


def _start_again(story: Story) -> None:
    told = story.sessions["session"]
    first = told.gateway_records[0].payload
    names = ("pol", "att", "man", "ini", "iso", "rfs")
    story.gateway_says("start-again", "session-start", {name: first[name] for name in names}, of=told)


def _refused_late(story: Story) -> None:
    told = story.sessions["session"]
    members = {"rsn": "late", "pol": story.policy(told, "deny")}
    story.gateway_says("late", "refusal", members, of=told)


def _made_up(story: Story) -> None:
    inference(story, story.sessions["session"], step="made-up", cseq=1)


def _unsafe(story: Story) -> None:
    told = story.sessions["session"]
    members = {"act": {"end": "complete", "typ": "egress"}, "pol": story.policy(told), "ph": "outcome"}
    hidden = {"act": {"tgt": "POST https://api.invalid:443/v1/items"}}
    story.supervisor_says(told, "unsafe", "egress", members, hidden)


def _again(story: Story) -> None:
    """A second outcome of the tool's one intent."""
    told = story.sessions["session"]
    first = next(record for record in told.supervisor.records if record.step == "tool-outcome").payload
    members = {name: first[name] for name in ("act", "pol", "ph", "par")}
    story.supervisor_says(told, "tool-outcome-again", "tool", members)


def _gate_again(story: Story) -> None:
    """A second outcome of the intent at the tool gate."""
    told = story.sessions["session"]
    first = next(record for record in told.gateway_records if record.step == "gate-outcome").payload
    members = {name: first[name] for name in ("act", "pol", "ph", "par")}
    story.gateway_says("gate-outcome-again", "tool", members, of=told)


CASES = (
    one("session/start-twice", "Two start records.", {"before:close": _start_again}, _START),
    one(
        "session/no-start",
        "The start record is left out.",
        {"skip:start": WITHOUT},
        _START,
    ),
    one(
        "session/record-before-start",
        "The gateway answered for the session before it admitted it.",
        {"before:start": _before_the_start, "skip:inference": WITHOUT},
        _START,
    ),
    one(
        "session/record-before-start-numbered-after",
        "The gateway answered before it admitted the session, and numbered the records in the other order.",
        {
            "before:start": _before_the_start,
            "skip:inference": WITHOUT,
            "members:early": put(agt__seq=1),
            "members:start": put(agt__seq=0),
        },
        _START,
    ),
    one(
        "session/start-numbered-later",
        "The start stands first in the chain; by its number it is the session's second record.",
        {"members:start": put(agt__seq=1), "members:inference": put(agt__seq=0)},
        _START,
    ),
    one(
        "session/without-number",
        "A gateway's record of the session has no number.",
        {"members:inference": lambda members: {**members, "agt": take("seq")(members["agt"])}},
        {"session.order": "session.order"},
    ),
    one(
        "session/number-missing",
        "The gateway's numbers of a session's records have a gap.",
        {"members:inference": put(agt__seq=7)},
        {"session.order": "session.order"},
    ),
    one(
        "session/number-twice",
        "One number of the session in two of the gateway's records.",
        {"members:inference": put(agt__seq=0)},
        {"session.order": "session.order"},
    ),
    one(
        "session/request-without-record",
        "The supervisor counted a request that no record has.",
        {"members:session-end": put(cseq=1)},
        _COUNTER,
    ),
    one(
        "session/counter-twice",
        "One request in two of the gateway's records.",
        {"before:session-end": _made_up, "members:made-up": put(agt__cseq=0)},
        _COUNTER,
    ),
    one(
        "session/inference-made-up",
        "An answer to a request that the supervisor did not count.",
        {"before:session-end": _made_up},
        _COUNTER,
    ),
    one(
        "session/inference-without-counter",
        "An answer that no supervisor signed for.",
        {
            "members:inference": lambda members: {**members, "agt": take("cseq")(members["agt"])},
            "members:session-end": put(cseq=-1),
        },
        _COUNTER,
    ),
    one(
        "session/end-without-counter",
        "The supervisor's end names no last request.",
        {"members:session-end": take("cseq")},
        _COUNTER,
    ),
    one("session/close-count", "The close counts a record more.", {"members:close": put(n=3)}, _CLOSE),
    one(
        "session/close-outcomes",
        "The close counts another outcome.",
        {"members:close": put(out={"inference.client_abort": 1, "session-start": 1})},
        _CLOSE,
    ),
    one("session/close-root", "The close has another root.", {"members:close": put(root=_OTHER)}, _CLOSE),
    one(
        "session/close-head",
        "The close names another last record.",
        {"members:close": put(head__rh=_OTHER)},
        _CLOSE,
    ),
    one(
        "session/close-supervisors-head",
        "The close names an earlier last record of the supervisor's: its tail would be gone.",
        {"members:close": put(sup__seq=2)},
        _CLOSE,
    ),
    one(
        "session/tail-cut",
        "The supervisor's end is left out, which the close names.",
        {"withhold:session-end": WITHOUT},
        _CLOSE | _PEER,
    ),
    one(
        "session/after-close",
        "A record of the session after its close.",
        {"before:finis": _refused_late},
        _CLOSE | _SEALED,
    ),
    one(
        "session/after-expiry",
        "Records after the instant at which the activation ends.",
        {"document:session-activation": put(exp=START - 100)},
        _SEALED,
    ),
    one(
        "session/link-to-nothing",
        "A link to a record that the other side did not make.",
        {"members:inference": put(peer__rh=_OTHER)},
        _PEER,
    ),
    one(
        "session/link-misnumbered",
        "A link with the right hash under another number.",
        {"members:inference": put(peer__seq=0)},
        _PEER,
    ),
    one(
        "session/link-missing",
        "A record without a link, after the other side was heard.",
        {"members:exec-outcome": take("peer")},
        _PEER,
    ),
    one(
        "session/link-missing-in-close",
        "A close without a link to the supervisor that was heard.",
        {"members:close": take("peer")},
        _PEER,
    ),
    one(
        "session/link-missing-in-lost-close",
        "A close as lost without a link, that names a record of the supervisor's as received.",
        {"members:close": take("peer")},
        _PEER,
        **_LOST,
    ),
    one(
        "session/lost-close-that-links-to-another",
        "A close as lost links to an earlier record of the supervisor's than it calls the last.",
        _linked_backwards(),
        _PEER,
        **_LOST,
    ),
    one(
        "session/lost-close-that-heard-nothing-links",
        "A close as lost that calls no record of the supervisor's received, and links to one.",
        _linked_backwards(),
        _PEER,
        **_UNHEARD,
    ),
    one(
        "session/link-to-own-record",
        "The close follows a record of the gateway itself, where it should name the supervisor's last.",
        _linked_to_its_own(),
        _PEER,
    ),
    one(
        "session/link-to-another-chain",
        "The close names the supervisor's last record, and another chain.",
        {"members:close": put(peer__chn=identifier("another chain"))},
        _PEER,
    ),
    one(
        "session/link-missing-in-the-first",
        "The supervisor's first record of the session names no record of the gateway.",
        {"members:exec-intent": take("peer")},
        _PEER,
    ),
    one("session/link-that-goes-back", "A later record names an earlier one.", _linked_backwards(), _PEER),
    one(
        "session/outcome-without-intent",
        "An outcome that names an intent that there is not.",
        {"members:tool-outcome": put(par=[identifier("no intent")])},
        _INTENT,
        **_ACTIONS,
    ),
    one(
        "session/outcome-names-nothing",
        "An outcome of a command that names no intent.",
        {"members:exec-outcome": take("par")},
        _INTENT,
    ),
    one(
        "session/outcome-twice",
        "Two outcomes of one intent.",
        {"before:outcomes-done": _again},
        _INTENT,
        **_ACTIONS,
    ),
    one(
        "session/gate-outcome-without-intent",
        "An outcome at the tool gate that names an intent that there is not.",
        {"members:gate-outcome": put(par=[identifier("no intent")])},
        _INTENT,
        **_GATE,
    ),
    one(
        "session/gate-outcome-names-nothing",
        "An outcome at the tool gate that names no intent.",
        {"members:gate-outcome": take("par")},
        _INTENT,
        **_GATE,
    ),
    one(
        "session/gate-outcome-twice",
        "Two outcomes of one intent at the tool gate.",
        {"before:gate-done": _gate_again},
        _INTENT,
        **_GATE,
    ),
    one(
        "session/gate-counter-twice",
        "A call at the tool gate that carries the counter of the listing before it.",
        {"members:gate-outcome": put(agt__cseq=0)},
        _COUNTER,
        **_GATE,
    ),
    one(
        "session/unsafe-without-intent",
        "A request that changes things, without its intent.",
        {"before:outcomes-done": _unsafe},
        _INTENT,
        **_ACTIONS,
    ),
    one(
        "session/another-secret",
        "A request that used another version of the secret than was acknowledged.",
        {"members:egress-outcome": put(sec=[{"ver": "2"}])},
        _INTENT,
        **_ACTIONS,
    ),
    one(
        "session/secret-unsaid",
        "A request whose outcome does not name the secret that its intent does.",
        {"members:egress-outcome": take("sec"), "hidden:egress-outcome": take("sec[0]")},
        _INTENT,
        **_ACTIONS,
    ),
    one(
        "session/denied-and-done",
        "An answer that was denied, and given.",
        {"members:inference": put(pol__dec="deny")},
        _DECISION,
    ),
    one(
        "session/denied-and-begun",
        "An answer that was denied, and handed out until the client went away.",
        {"members:inference": put(pol__dec="deny", res__end="client_abort")},
        _DECISION,
    ),
    one(
        "session/asked-and-done",
        "A request that waited for an approval, and was sent.",
        {"members:egress-outcome": put(pol__dec="ask")},
        _DECISION,
        **_ACTIONS,
    ),
    one(
        "session/secret-denied-and-used",
        "A secret whose use was denied, and acknowledged.",
        {"members:secret": put(pol__dec="deny")},
        _DECISION,
        **_ACTIONS,
    ),
    one(
        "session/rewritten-without-rule",
        "Something else was forwarded than was received, and the decision does not say so.",
        {"hidden:inference": put(req__fwd=sha256_name(b"something else"))},
        _DECISION,
    ),
)
