"""What happens in a session, step by step; and the short story that most cases are made of."""

from __future__ import annotations

from typing import Any

from vectors.making import tree
from vectors.making.documents import BUILD
from vectors.making.encoding import b64u, from_b64u, sha256_name
from vectors.making.records import Members, Record, Session
from vectors.making.story import Story

__all__ = [
    "ABORTED",
    "CHAT",
    "EVENTS",
    "FETCHED",
    "REQUEST",
    "RESPONSE",
    "STREAM",
    "boot",
    "close",
    "end",
    "execute",
    "finish",
    "ids",
    "inference",
    "open_session",
    "session",
    "start",
]

REQUEST = b'{"messages":[{"content":"What is attested?","role":"user"}],"model":"echo"}'
RESPONSE = b'{"choices":[{"index":0,"message":{"content":"What is measured.","role":"assistant"}}]}'
EVENTS = (
    b'data: {"choices":[{"delta":{"content":"What is "},"index":0}]}\n\n',
    b'data: {"choices":[{"delta":{"content":"measured."},"index":0}]}\n\n',
    b"data: [DONE]\n\n",
)
"""A stream's events, each with its blank line."""
STREAM = b"".join(EVENTS)
ABORTED = EVENTS[0]
"""What was handed out before the client went away."""
FETCHED = ("GET https://pictures.invalid:443/a.png", "GET https://pictures.invalid:443/b.png?size=1")
"""What a request has the model server fetch."""
CHAT = {"m": "POST", "p": "/v1/chat/completions"}


def boot(story: Story) -> None:
    """The gateway's boot record."""
    keyset = story.gateway.keyset_digest
    story.gateway_says("gateway-boot", "boot", {"bld": BUILD, "col": story.col, "ks": keyset})


def start(story: Story, label: str = "session") -> Session:
    """A session is admitted, and its supervisor boots."""
    told = story.new_session(label)
    step = _prefix(told)
    story.before(f"{step}start")
    story.gateway_says(
        f"{step}start",
        "session-start",
        {
            "pol": story.policy(told),
            "att": story.rests_on(told),
            "man": {"act": told.supervisor.statement["act"], "man": told.supervisor.statement["man"]},
            "ini": {"iss": "local", "method": "uid"},
            "iso": told.activation["iso"],
            "rfs": told.manifest["rootfs"],
            **{name: told.activation[name] for name in ("rel",) if name in told.activation},
            **({"tsk": told.activation["task"]} if "task" in told.activation else {}),
        },
        {
            "agt": {"id": "implementer", "ten": "vectors", "user": "nobody"},
            "pol": {"id": "implementer", "rules": ["session.allow"]},
            "ini": {"sub": told.activation["starter"]["sub"]},
        },
        of=told,
    )
    keysets = {"gks": told.supervisor.statement["gks"], "ks": told.supervisor.keyset_digest}
    story.supervisor_says(told, f"{step}session-boot", "boot", {"bld": BUILD, **keysets})
    return told


def _prefix(told: Session) -> str:
    return "" if told.label == "session" else f"{told.label}-"


def inference(
    story: Story,
    told: Session,
    *,
    step: str = "inference",
    cseq: int = 0,
    request: bytes = REQUEST,
    response: bytes = RESPONSE,
    events: tuple[bytes, ...] = (),
    how: str = "complete",
    answered: Members | None = None,
    more: Members | None = None,
) -> None:
    """One answer; ``events``: of a stream. A prefix has the root over the events that were handed out.

    ``answered``: the member ``ans``, which older records lack.
    """
    res: Members = {"dig": sha256_name(response), "len": len(response)}
    if events:
        res |= {"evs": len(events), "evr": b64u(tree.root([tree.leaf_hash(event) for event in events]))}
    story.gateway_says(
        f"{_prefix(told)}{step}",
        "inference",
        {
            "req": dict(CHAT),
            "res": {"end": how, "st": 200},
            "mdl": {"id": "echo", **(answered or {})},
            "use": {},
            "pol": story.policy(told),
            "up": [{"bind": "none", "host": "echo.invalid", "id": "echo", "res": "ok"}],
            "att": story.rests_on(told),
            **(more or {}),
        },
        {
            "agt": {"id": "implementer"},
            "pol": {"id": "implementer", "rules": ["inference.allow"]},
            "req": {"dig": sha256_name(request), "fwd": sha256_name(request), "len": len(request)},
            "res": res,
            "mdl": {"prm": {"temperature": "0.7"}},
            "use": {"in": 7, "out": 3},
        },
        of=told,
        cseq=cseq,
    )


def execute(story: Story, told: Session) -> None:
    """A command runs, from intent to outcome."""
    step = _prefix(told)
    what = {"name": "python3", "arg": sha256_name(b"python3 task.py")}
    exec_members: Members = {"act": {"typ": "exec"}, "iso": told.activation["iso"], "ph": "intent"}
    begun = story.supervisor_says(told, f"{step}exec-intent", "exec", exec_members, {"act": what})
    story.before(f"{step}exec-outcome")
    outcome: Members = {
        "act": {"end": "complete", "typ": "exec"},
        "iso": told.activation["iso"],
        "ph": "outcome",
        "par": ids(begun),
    }
    hidden = {"act": {**what, "out": sha256_name(b"done\n")}}
    story.supervisor_says(told, f"{step}exec-outcome", "exec", outcome, hidden)


def ids(*records: Record | None) -> list[str]:
    """The ids of these records, for ``par``."""
    return [str(record.payload["jti"]) for record in records if record is not None]


def end(story: Story, told: Session, *, cseq: int = 0) -> None:
    """The supervisor ends its chain; ``cseq``: the last request that it signed for, -1 for none."""
    step = _prefix(told)
    story.before(f"{step}session-end")
    story.supervisor_says(told, f"{step}session-end", "end", {"cseq": cseq, "why": "shutdown"})


def close(story: Story, told: Session, *, why: str = "done", acknowledged: int | None = None) -> None:
    """The gateway sums the session up; ``acknowledged``: how many of the supervisor's records it had received."""
    step = _prefix(told)
    story.before(f"{step}close")
    before, theirs = told.gateway_records, told.supervisor.records
    received = theirs if acknowledged is None else theirs[:acknowledged]
    out: dict[str, int] = {}
    for record in before:
        name = _outcome(record.payload)
        out[name] = out.get(name, 0) + 1
    if received:
        sup = {**received[-1].head, "end": int(received[-1].payload["kind"] == "end")}
    else:
        chn = told.supervisor.statement["chn"][0]
        sup = {"chn": chn, "seq": 0, "rh": told.supervisor.keyset_digest, "end": 0}
    hashes = [tree.leaf_hash(from_b64u(record.rh)) for record in before]
    members: Members = {
        "out": out,
        "n": len(before),
        "head": before[-1].head,
        "root": b64u(tree.root(hashes)),
        "sup": sup,
        "why": why,
    }
    kept = told.supervisor.records
    told.supervisor.records = received
    try:
        story.gateway_says(f"{step}close", "session-close", members, of=told)
    finally:
        told.supervisor.records = kept


def _outcome(payload: Members) -> str:
    if payload["kind"] == "inference":
        return f"inference.{payload['res']['end']}"
    return f"{payload['kind']}.{payload['ph']}" if "ph" in payload else str(payload["kind"])


def finish(story: Story, told: Session, *, cseq: int = 0) -> None:
    """End and close."""
    end(story, told, cseq=cseq)
    close(story, told)
    story.before("finis")


def session(story: Story, **how: Any) -> None:
    """The story that most cases are made of: one command, one answer, an end and a close."""
    boot(story)
    told = start(story)
    execute(story, told)
    inference(story, told, **how)
    finish(story, told)


def open_session(story: Story) -> None:
    """The same, with neither end nor close."""
    boot(story)
    told = start(story)
    inference(story, told)
