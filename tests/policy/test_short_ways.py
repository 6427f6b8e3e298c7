"""Most spellings are plain, and judged in one step: that step says what the long way says."""

from __future__ import annotations

import re
from collections.abc import Callable
from types import ModuleType
from unittest.mock import patch

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.properties import thorough

from affiant.attestation.encoding.canonical import canonical, parse_object
from affiant.policy.canonical import hosts, paths, targets
from affiant.policy.canonical.errors import AffiantError
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import EgressQuestion, ToolQuestion
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.model.profile import Scheme

NEVER = re.compile(r"(?!)")


def said(ask: Callable[[str], object], text: str) -> object:
    try:
        return ask(text)
    except AffiantError as error:
        return error.code, error.message


WAYS = [
    (hosts, "_PLAIN_HOST", hosts.canonical_host, "aZ0-.x1n_*%"),
    (hosts, "_PLAIN_HOST", hosts.is_canonical_host, "aZ0-.x1n_*%"),
    (paths, "_PLAIN", paths.canonical_path, "/a.~ é\\\n\x00*:"),
    (targets, "_JUDGED", targets.canonical_target, "/a.%2Fe;?#*é\\"),
    (targets, "_JUDGED", targets.judged_path, "/a.%2Fe;?#*é\\"),
]


@pytest.mark.parametrize(("module", "name", "ask", "alphabet"), WAYS)
def test_the_short_way_says_what_the_long_way_says(
    module: ModuleType, name: str, ask: Callable[[str], object], alphabet: str
) -> None:
    found: set[bool] = set()
    spellings = st.text(alphabet, max_size=12)

    @thorough(400)
    @given(spellings.map(lambda text: f"/{text}") if "/" in alphabet else spellings)
    @example("/a" if "/" in alphabet else "a.x")  # plain: chance alone finds no such host in one run of ten
    @example("\\")
    def hold(text: str) -> None:
        short = said(ask, text)
        with patch.object(module, name, NEVER):
            assert said(ask, text) == short
        found.add(getattr(module, name).match(text) is not None)

    hold()
    assert found == {True, False}


@pytest.mark.parametrize("length", [252, 253, 254, 8190, 8191, 8192])
def test_the_short_way_has_the_same_bounds(length: int) -> None:
    label = "a" * 62 + "."
    host = (label * (length // 63 + 1))[:length].removesuffix(".") + "b" * 0
    for module, name, ask, text in (
        (hosts, "_PLAIN_HOST", hosts.is_canonical_host, host),
        (paths, "_PLAIN", paths.canonical_path, "/" + "a" * (length - 1)),
        (targets, "_JUDGED", targets.judged_path, "/" + "a" * length),
    ):
        short = said(ask, text)
        with patch.object(module, name, NEVER):
            assert said(ask, text) == short


_words = st.text(max_size=8) | st.sampled_from(['"', "\\", "\x7f", "\u2028", "é"])


@given(_words, _words, st.sampled_from(list(Effect)), st.booleans(), st.none() | st.integers(0, 99))
def test_a_line_is_the_canonical_form_of_its_members(
    session: str, secret: str, effect: Effect, offered: bool, size: int | None
) -> None:
    by = DecidedBy(session=session, policy_digest="sha384:" + "0" * 96, agent=None if offered else "dev")
    question = EgressQuestion("a.b.c", 8443, Scheme.HTTPS, "GET", "/a/%C3%A9?q=1")
    decision = Decision(effect, "allowed", ("egress/0", "egress/12"))
    for each in (question, ToolQuestion("x", "{}"), ToolQuestion(secret)):
        line = decision_line(
            by,
            each,
            decision,
            ts=17,
            secret=secret,
            surface="header:x",
            offered=offered,
            size=size,
            latency_us=size,
        )
        members = parse_object(line[:-1], limit=1 << 16, strict_form=False)
        assert canonical(members) + b"\n" == line
        assert members["secrets"] == [secret] and members["session"] == session


def test_a_lone_surrogate_is_refused_in_a_line() -> None:
    by = DecidedBy(session="\ud800", policy_digest="sha384:" + "0" * 96)
    with pytest.raises(AffiantError):
        decision_line(by, ToolQuestion("x"), Decision(Effect.DENY, "tool_not_listed"), ts=0)
