"""Bundles in which nothing is wrong: each must be read, and refused by no row."""

from __future__ import annotations

from typing import Any

from vectors.making import tree
from vectors.making.case import Case, told
from vectors.making.documents import ear_before, identifier, with_model_aliases, with_tool_servers, with_turns
from vectors.making.encoding import b64u, sha256_name
from vectors.making.faults import put
from vectors.making.keys import ed25519_key, seeded
from vectors.making.scripts import (
    ABORTED,
    EVENTS,
    FETCHED,
    REQUEST,
    RESPONSE,
    STREAM,
    boot,
    close,
    execute,
    finish,
    inference,
    open_session,
    session,
    start,
)
from vectors.making.stories import actions, epochs, forwarded_headers, model_answers, tool_gate, two_sessions
from vectors.making.story import Story

__all__ = ["CASES", "lost", "lost_unheard"]

_SESSION_ROWS = tuple(
    f"session.{name}"
    for name in ("start", "order", "counter", "close", "peer", "intents", "decisions", "supervisor")
)


def _stream(story: Story) -> None:
    session(story, response=STREAM, events=EVENTS)


def _aborted(story: Story) -> None:
    session(story, response=ABORTED, events=EVENTS[:1], how="client_abort")


def lost(story: Story) -> None:
    """The supervisor was killed after three records; two of them had reached the gateway."""
    boot(story)
    told = start(story)
    inference(story, told)
    execute(story, told)
    close(story, told, why="lost", acknowledged=2)


def _two_accounts(story: Story) -> None:
    """The answer was interrupted: the gateway says so, the supervisor says that the gateway did not answer."""
    boot(story)
    told = start(story)
    execute(story, told)
    inference(story, told, response=ABORTED, events=EVENTS[:1], how="client_abort")
    refused = {"pol": story.policy(told, "deny"), "rsn": "gateway.unreachable"}
    story.supervisor_says(told, "unanswered", "refusal", refused, cseq=0)
    finish(story, told)


def lost_unheard(story: Story) -> None:
    """The supervisor was killed before the gateway had received a record of it."""
    boot(story)
    told = start(story)
    close(story, told, why="lost", acknowledged=0)


def _gateway_died(story: Story) -> None:
    """A later boot of the gateway says where the chain of the one before stopped."""
    open_session(story)
    last = story.gateway.records[-1].head
    story.gateway = story.new_gateway("later")
    keyset = story.gateway.keyset_digest
    story.gateway_says("later-boot", "boot", {"bld": "sha256:" + "5" * 64, "col": story.col, "ks": keyset})
    story.gateway_says("later-gap", "gap", {"lst": last, "src": "untrusted-store"})


def _lost_beside_a_neighbour(story: Story) -> None:
    """A session without its end, of a gateway that died; another one ended in order before that."""
    boot(story)
    told = start(story)
    neighbour = start(story, "neighbour")
    inference(story, told)
    inference(story, neighbour, answered={"ans": "another"})
    finish(story, neighbour)
    last = story.gateway.records[-1].head
    story.gateway = story.new_gateway("later")
    keyset = story.gateway.keyset_digest
    story.gateway_says("later-boot", "boot", {"bld": "sha256:" + "5" * 64, "col": story.col, "ks": keyset})
    story.gateway_says("later-gap", "gap", {"lst": last, "src": "untrusted-store"})


def _late_session(story: Story) -> None:
    """A session that begins when the gateway has long been running; a first one ended before."""
    boot(story)
    first = start(story, "first")
    finish(story, first, cseq=-1)
    told = start(story)
    inference(story, told)
    finish(story, told)


def _with_a_strangers_line(note: str) -> str:
    text = note.partition("\n\n")[0] + "\n"
    return note + tree.note(text, "witness.invalid", ed25519_key("a stranger")).partition("\n\n")[2]


def _with_an_object(bundle: dict[str, Any]) -> dict[str, Any]:
    raw = b"nothing names this"
    bundle["policies"][sha256_name(raw)] = b64u(raw)
    return bundle


_OPTIONAL = {
    "members:inference": lambda members: {
        **members,
        "eat_nonce": b64u(seeded("a client's nonce", 32)),
        "par": [identifier("a record elsewhere")],
        "lim": ["remote-adversary-only"],
        "ext": {"urn:affiant:vectors": "an extension never changes a verdict upward"},
    },
    "hidden:inference": lambda hidden: {**hidden, "": {"trc": {"s": "0123456789abcdef", "t": "1" * 32}}},
}
_REWRITTEN = {"hidden:inference": put(req__fwd=sha256_name(b"the request without a tool"))}
_FIRST_ABSENT = {
    "absent:first": True,
    **{f"withhold:first-{step}": True for step in ("start", "close", "session-boot", "session-end")},
}
_NEIGHBOUR_ABSENT = {
    "absent:neighbour": True,
    **{f"withhold:neighbour-session-{step}": True for step in ("boot", "end")},
}
_SUPERVISORS_END = ("session.close", "session.supervisor")

CASES = (
    Case(
        "valid/boot",
        "The gateway's boot record alone: authentic, and no session to judge.",
        told(script=boot),
        not_made=(*_SESSION_ROWS, "pol.bound", "peer.bound"),
    ),
    Case(
        "valid/inference",
        "A session with one answer that is no stream; request and response are given.",
        told(),
        warnings=("rfs.accepted",),
        request=REQUEST,
        response=RESPONSE,
    ),
    Case(
        "valid/stream",
        "A stream to its end: `res.evs` events, and `res.evr` is the tree hash over them.",
        told(script=_stream),
        warnings=("rfs.accepted",),
        request=REQUEST,
        response=STREAM,
    ),
    Case(
        "valid/client-abort",
        "The client went away after one event: the record commits to what was handed out.",
        told(script=_aborted),
        warnings=("rfs.accepted",),
        request=REQUEST,
        response=ABORTED,
        stored_from="valid/inference",
    ),
    Case(
        "valid/actions",
        "Refusals of both signers, a tool call from intent to outcome, a secret used in a request.",
        told(script=actions),
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/tool-gate",
        "Tools behind the gateway: a listing, and a call from intent to outcome, each with its counter.",
        told(script=tool_gate),
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/tool-servers",
        "A gateway whose configuration names servers of tools.",
        told({"document:config": with_tool_servers}),
        trust="trust-any-configuration.json",
        warnings=("rfs.accepted", "conf.accepted"),
    ),
    Case(
        "valid/turns",
        "A gateway whose configuration says how many requests its upstream is asked at once.",
        told({"document:config": with_turns}),
        trust="trust-any-configuration.json",
        warnings=("rfs.accepted", "conf.accepted"),
    ),
    Case(
        "valid/fetched",
        "A request that names two URLs for the model server to fetch (`fet.tgt`, hidden).",
        told({"members:inference": put(fet={}), "hidden:inference": put(fet={"tgt": list(FETCHED)})}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/fetched-nothing",
        "A request that names no URL: `fet` holds a decoy.",
        told({"members:inference": put(fet={})}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/model-answered",
        "Answers that name the model that was asked for, and one that names none (`mdl.ans`).",
        told(script=model_answers("echo", None)),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/model-answered-other",
        "An answer that names another model than was asked for, by one character, and one that names an alias that no "
        "configuration has.",
        told(script=model_answers("echo", "Echo", "echo-latest")),
        warnings=("rfs.accepted", "model.answered"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/request-headers",
        "A request of which the gateway forwarded two headers, named with what was forwarded (`req.hdr`).",
        told(script=forwarded_headers),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/model-aliases",
        "The gateway's configuration explains the names of the answers: aliases of the model that was asked for.",
        told(
            {"document:config": with_model_aliases},
            script=model_answers("echo", "echo-2026-11-20", "echo-latest"),
        ),
        trust="trust-any-configuration.json",
        warnings=("rfs.accepted", "conf.accepted"),
    ),
    Case(
        "valid/epochs",
        "Both chains keep their rhythm for three minutes, and both end.",
        told(script=epochs),
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/erased-1",
        "Erasure, level 1: every disclosure is destroyed, every signature still holds; a body cannot be judged.",
        told(disclosed=False),
        not_made=("body.request", "body.response"),
        warnings=("rfs.accepted",),
        request=REQUEST,
        response=RESPONSE,
        stored_from="valid/inference",
    ),
    Case(
        "valid/open",
        "A session that is still open: neither end nor close, and that is a warning.",
        told(script=open_session),
        warnings=("rfs.accepted", *_SUPERVISORS_END),
    ),
    Case(
        "valid/lost",
        "A session closed as lost; its supervisor had signed one record more than the gateway knew.",
        told(script=lost),
        warnings=("rfs.accepted", *_SUPERVISORS_END),
    ),
    Case(
        "valid/two-accounts",
        "Of one request the gateway says that its client went away, the supervisor that the gateway did not answer.",
        told(script=_two_accounts),
        warnings=("rfs.accepted", "session.counter"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/lost-unheard",
        "A session closed as lost before the gateway had received a record of its supervisor: the close has no link.",
        told(script=lost_unheard),
        warnings=("rfs.accepted", *_SUPERVISORS_END),
        stored_from="valid/lost",
    ),
    Case(
        "valid/gateway-died",
        "The gateway died; the next boot's gap names its chain, so that the session counts as lost.",
        told(script=_gateway_died),
        warnings=("rfs.accepted", "chain.gaps", *_SUPERVISORS_END),
    ),
    Case(
        "valid/lost-beside-a-neighbour",
        "The same; between lie the gateway's records of another session, which ended in order and is not judged.",
        told(_NEIGHBOUR_ABSENT, _lost_beside_a_neighbour),
        warnings=("rfs.accepted", "chain.gaps", *_SUPERVISORS_END),
        stored_from="valid/gateway-died",
    ),
    Case(
        "valid/without-proofs",
        "No proof of inclusion was given: level L1.",
        told(logged=False),
        not_made=("log.inclusion",),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/two-sessions",
        "Two sessions side by side in one gateway chain.",
        told(script=two_sessions),
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/late-session",
        "A session of a gateway that had others before: records after its boot, left out in one stretch.",
        told(_FIRST_ABSENT, _late_session),
        warnings=("rfs.accepted",),
    ),
    Case(
        "valid/rewritten",
        "A tool was taken out: something else was forwarded than was received, and the decision says so.",
        told({**_REWRITTEN, "members:inference": put(pol__dec="redact")}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/rewritten-and-stopped",
        "A tool was taken out, the model called it, the answer was stopped: the last decision is `deny`.",
        told({**_REWRITTEN, "members:inference": put(pol__dec="deny", res__end="policy_stop")}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/optional-members",
        "A nonce, a causal parent, a limit, an extension, and a disclosed trace.",
        told(_OPTIONAL),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/private-host",
        "A name of the profile means a private address here: a warning, which names it.",
        told({"document:session-manifest": put(hosts={"api.invalid": ["10.0.0.7"]})}),
        warnings=("pol.private", "rfs.accepted"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/added-authority",
        "A certificate authority beside the system's own: a warning.",
        told({"document:session-manifest": put(upstream_roots=["sha256:" + "1" * 64])}),
        warnings=("pol.private", "rfs.accepted"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/namespaces",
        "An agent isolated by namespaces, where manifest and trust file accept that: a warning.",
        told(
            {
                "document:session-activation": put(iso="bwrap-landlock"),
                "document:session-manifest": put(isolation_floor="namespace"),
            }
        ),
        warnings=("iso.floor", "rfs.accepted"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/release",
        "The session names the release of gVisor that isolates it, and no escape from that is known.",
        told({"document:session-activation": put(rel="20250101.0")}),
        trust="trust-releases.json",
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/release-with-an-escape",
        "The release is older than the first one from which the trust file knows no escape: a warning.",
        told({"document:session-activation": put(rel="20240729.12")}),
        trust="trust-releases.json",
        warnings=("iso.floor", "rfs.accepted"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/release-unknown",
        "The trust file knows escapes from old releases, and the session names none: a warning.",
        told(),
        trust="trust-releases.json",
        warnings=("iso.floor", "rfs.accepted"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/pinned-log",
        "The trust file names the log's key instead of `attested`.",
        told(),
        trust="trust-log-pinned.json",
        attested=False,
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/unpinned-log",
        "The trust file names no log: inclusion holds with a warning.",
        told(),
        trust="trust-no-log.json",
        attested=False,
        warnings=("rfs.accepted", "log.inclusion"),
        stored_from="valid/inference",
    ),
    Case(
        "valid/any-order",
        "The receipts in another order in the file: the order is in the chains.",
        told({"receipts": lambda receipts: receipts[::-1]}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/more-lines-in-the-note",
        "A checkpoint with an extension line that the log signed, and a signature line of a key that nobody knows.",
        told({"checkpoint": lambda text: text + "an extension\n", "note": _with_a_strangers_line}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/padded-quote",
        "Seventy zero bytes after the quote, as clouds pad it: tolerated, and never read.",
        told({"quote:session": lambda quote: quote + bytes(70)}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/result-of-an-earlier-release",
        "The attestation result in the form that gateways wrote before they took the draft's names.",
        told({"document:session-ear": ear_before}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
    Case(
        "valid/foreign-object",
        "An object that nothing names: it is what its name says, and counts for nothing.",
        told({"bundle": _with_an_object}),
        warnings=("rfs.accepted",),
        stored_from="valid/inference",
    ),
)
