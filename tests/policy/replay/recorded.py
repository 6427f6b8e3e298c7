"""Lines of decision logs: some of every kind, and any that hypothesis can think of."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Final

from hypothesis import strategies as st

from affiant.policy.decision.decide import REASONS
from affiant.policy.decision_log.reader import RecordedDecision, read_decision

DIGEST: Final = "sha384:" + "ab" * 48
_ALLOWED: Final = {"decision": "allow", "reason": "allowed"}
_COMMON: Final = {"agent": "dev", "policy_digest": DIGEST, "session": "s-1", "ts": 1_700_000_000}

LINES: Final[tuple[Mapping[str, object], ...]] = tuple(
    {**_COMMON, **each}
    for each in (
        {
            "request": "POST https://api.b.com/v1/items",
            "decision": "deny",
            "reason": "method_not_listed",
            "bytes": 12,
            "latency": 7,
        },
        {
            "request": "GET http://plain.b.com:8080/x?a=b",
            **_ALLOWED,
            "rules": ["egress/0"],
            "secrets": ["KEY"],
        },
        {"request": "PURGE https://api.b.com/", **_ALLOWED, "rules": ["egress/0", "egress/2"]},
        {"request": "? https://xn--bcher-kva.example/%", "decision": "deny", "reason": "host_not_listed"},
        {"request": "connect:api.b.com:8443", **_ALLOWED, "rules": ["egress/1"]},
        {"request": "connect:10.1.2.3", "decision": "deny", "reason": "host_not_listed"},
        {"request": "connect:api.b.com:99999", "decision": "deny", "reason": "host_not_listed"},
        {"request": "tool:run_tests", "decision": "ask", "reason": "approval_required", "rules": ["tools/0"]},
        {"request": "tool:apply@k8s#sha256:" + "cd" * 32, **_ALLOWED, "withheld": True, "grant": "g-1"},
        {"request": 'tool:apply {"n": "hunter2"}', "decision": "deny", "reason": "approval_no_approver"},
        {"request": "tool:?@?", "decision": "deny", "reason": "tool_not_listed", "offered": True},
        {"request": "model:big", **_ALLOWED, "attested": True, "request_digest": "sha256:" + "0" * 64},
        {"request": "read:/workspace/a b", **_ALLOWED, "rules": ["filesystem/0"]},
        {"request": "write:/", "decision": "deny", "reason": "path_not_listed"},
        {"request": "secret:KEY@api.b.com", **_ALLOWED, "secrets": ["KEY"], "surface": "header:x-key"},
    )
)

_TEXT: Final = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
_HOST: Final = st.one_of(st.sampled_from(["a.b.com", "10.0.0.1", "[::1]", "?"]), _TEXT)
_REQUESTS: Final = st.one_of(
    st.builds("tool:{}".format, _TEXT),
    st.builds("tool:{}@{}#{}".format, _TEXT, _TEXT, _TEXT),
    st.builds("model:{}".format, _TEXT),
    st.builds("{}:/{}".format, st.sampled_from(["read", "write"]), _TEXT),
    st.builds("connect:{}:{}".format, _HOST, st.integers(1, 99_999)),
    st.builds("secret:{}@{}".format, _TEXT, _HOST),
    st.builds(
        "{} {}://{}/{}".format,
        st.sampled_from(["GET", "POST", "M"]),
        st.sampled_from(["http", "https"]),
        _HOST,
        _TEXT,
    ),
)
_COUNT: Final = st.integers(0, 1 << 52)
_OUTCOMES: Final = st.one_of(
    st.just(("allow", "allowed")),
    st.just(("ask", "approval_required")),
    st.sampled_from(sorted(set(REASONS) - {"allowed", "approval_required"})).map(
        lambda reason: ("deny", reason)
    ),
)


@st.composite
def lines(draw: st.DrawFn) -> Mapping[str, object]:
    """The members of a line with an agent, a session and a time; any of the others."""
    decision, reason = draw(_OUTCOMES)
    request = draw(_REQUESTS)
    more = draw(
        st.fixed_dictionaries(
            {},
            optional={
                "bytes": _COUNT,
                "latency": _COUNT,
                "grant": _TEXT,
                "policy_digest": st.just(DIGEST),
                "request_digest": st.just("sha256:" + "12" * 32),
                "rules": st.lists(
                    st.sampled_from(["egress/0", "tools/12", "secrets/3"]), min_size=1, max_size=3
                ),
                "secrets": st.lists(_TEXT, min_size=1, max_size=2),
            },
        )
    )
    session, ts = draw(_TEXT), draw(st.integers(0, 1 << 33))
    asked = {"request": request, "decision": decision, "reason": reason}
    return {"agent": "dev", "session": session, "ts": ts, **asked, **more}


def recorded(members: Mapping[str, object], number: int = 1) -> RecordedDecision:
    """The decision of a line with these members."""
    return read_decision(json.dumps(members).encode(), number=number, source="d.jsonl", nameless=True)
