"""Patterns: held against an engine of regular expressions, and against whoever wants them slow or misread."""

from __future__ import annotations

import json
import random
import re
import time

import pytest

from affiant.attestation.encoding.canonical import canonical
from affiant.policy.canonical.errors import NormalFormRefused, ValueRefused
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.load import load_profiles
from affiant.policy.model import text_pattern
from affiant.policy.model.pattern_syntax import MAX_PATTERN, read_pattern
from affiant.policy.model.text_pattern import (
    MAX_WORK,
    MAX_WORK_OF_FILE,
    MAX_WORK_OF_PROFILE,
    Automaton,
    Work,
    automaton,
)
from affiant.policy.normal_form.reader import read_normal_form

ATOMS = [*"abc", "[ab]", "[a-c]", "[b-]", "[]a]".replace("[]", "[\\]"), "\\.", "\\-", "\\["]
COUNTS = ["", "?", "*", "+", "{2}", "{1,3}", "{0,2}", "{2,}", "{0,}"]


def some_pattern(source: random.Random, depth: int) -> str:
    if depth == 0 or source.random() < 0.3:
        return source.choice(ATOMS)
    kind = source.randrange(3)
    parts = [some_pattern(source, depth - 1) for _ in range(source.randrange(1, 4))]
    if kind == 0:
        return f"({'|'.join(parts)})"
    return "".join(parts) if kind == 1 else f"({parts[0]}){source.choice(COUNTS)}"


def walked(found: Automaton, source: random.Random) -> str | None:
    """A text of the language, by chance; None where the way was too long."""
    state, text = 0, ""
    for _ in range(12):
        if state in found.accepting and (not found.steps[state] or source.random() < 0.3):
            return text
        char = source.choice(sorted(found.steps[state]))
        state, text = found.steps[state][char], text + char
    return None


@pytest.mark.parametrize("seed", range(6))
def test_a_text_fits_exactly_where_a_regular_expression_fits_the_whole_of_it(seed: int) -> None:
    source, fitting = random.Random(seed), 0
    for _ in range(120):
        pattern = some_pattern(source, 3)
        found, known = automaton(pattern), re.compile(pattern)
        texts = ["".join(source.choices("abc.-[]x\n", k=source.randrange(6))) for _ in range(20)]
        texts += [text for _ in range(5) if (text := walked(found, source)) is not None]
        for text in [*texts, found.shortest]:
            assert found.fits(text) == (known.fullmatch(text) is not None), (pattern, text)
            fitting += found.fits(text)
            assert not found.fits(text) or found.longest is None or len(text) <= found.longest
    assert fitting > 300


@pytest.mark.parametrize(
    ("pattern", "longest", "shortest"),
    [
        ("a", 1, "a"),
        ("a?", 1, ""),
        ("a*", None, ""),
        ("a{2,}", None, "aa"),
        ("(a|bc){2,3}d?", 7, "aa"),
        ("[b-d][+-]", 2, "b+"),
        (r"\{\}\\\.", 4, "{}\\."),
        ("a-b", 3, "a-b"),
        ("[^-^]".replace("[^-^]", r"[\^-\^]"), 1, "^"),
        ("((a?){8}){8}", 64, ""),
    ],
)
def test_the_longest_and_the_shortest_text(pattern: str, longest: int | None, shortest: str) -> None:
    found = automaton(pattern)
    assert (found.longest, found.shortest) == (longest, shortest)
    assert found.fits(shortest)


@pytest.mark.parametrize(
    "pattern",
    [
        *("", "a**", "a+?", "a{2}?", "a{2}{3}", "*a", "+", "?", "{2}", "(*a)"),
        *("(a", "a)", "()", "(|a)", "a|", "|", "(?i)a", "(?:a)", "(?=a)b", "(?<x>a)", "a||b"),
        *(
            "[",
            "[]",
            "[a",
            "[^a]",
            "[z-a]",
            "[[:alpha:]]",
            "[a[b]]",
            "[a-",
            "]",
            "}",
            "a{",
            "a{,2}",
            "a{3,2}",
            "a{0}",
        ),
        *(
            "a{1000}",
            "a{ 1}",
            "a{1,2",
            "^a",
            "a$",
            ".",
            "a.*b",
            r"\d",
            r"\w",
            r"\s",
            r"\x41",
            r"\1",
            r"\n",
            "\\",
        ),
        *(
            "\u00e9",
            "a\tb",
            "a\nb",
            "\x00",
            "[\u00e9]",
            "\u212a",
            "a" * (MAX_PATTERN + 1),
            "(" * 40 + "a" + ")" * 40,
        ),
        "(a|b)*a(a|b){12}",
        "(((((a{5}){5}){5}){5}){5})",
        "[a-z]{513}",
        "((a?){22}){22}",
        "(a?b?c?d?e?f?g?h?){40}",
    ],
)
def test_what_engines_read_differently_or_slowly_is_refused(pattern: str) -> None:
    with pytest.raises(ValueRefused) as refusal:
        automaton(pattern)
    assert refusal.value.code == "policy.value"
    assert str(refusal.value).isascii() and str(refusal.value).isprintable()


@pytest.mark.parametrize(
    "pattern", ["(a+)+b", "(a*)*b", "(a|a)*b", "(a?){64}a{64}", "([a-z]+)*b", "(x+x+)+y"]
)
def test_no_pattern_makes_a_text_slow(pattern: str) -> None:
    """Each takes a backtracking engine longer than anybody waits."""
    found = automaton(pattern)
    begin = time.process_time()
    assert not found.fits("a" * 65_000 + "!")
    assert time.process_time() - begin < 1


def test_a_refusal_says_where_and_what_to_write() -> None:
    with pytest.raises(ValueRefused, match=r"after 'v'") as refusal:
        automaton("v.x")
    assert refusal.value.expected == "\\. for the character itself"
    assert "[a-z0-9]" in (refusal.value.hint or "")


# -- what many cost together --


def of_tools(patterns: list[str]) -> str:
    """A profile's YAML with a tool for each pattern."""
    rules = (
        f"    - {{name: t{number}, args: {{a: {{each: {{pattern: '{pattern}', max_len: 900}}, max_items: 2}}}}}}\n"
        for number, pattern in enumerate(patterns)
    )
    return "    tools:\n" + "".join(rules)


def small(number: int) -> str:
    """A pattern that costs about 6,000."""
    return f"(a|b)*a(a|b){{6}}{number}"


@pytest.mark.parametrize("pattern", ["[ -~]{1,250}", "([ -~]|a|b|c|d)*a[ -~]{8}", "(a?){64}a{64}", small(1)])
def test_what_an_automaton_costs_bounds_what_it_holds(pattern: str) -> None:
    made = automaton(pattern)
    assert sum(len(step) for step in made.steps) <= made.work <= MAX_WORK


def test_the_patterns_of_a_profile_are_bounded_together_at_the_line_of_the_one_too_many() -> None:
    fits = MAX_WORK_OF_PROFILE // automaton(small(0)).work
    head = "agent_configs:\n  dev:\n"
    few = load_profiles((head + of_tools([small(number) for number in range(fits - 2)])).encode())
    assert len(few.profile("dev").policy.tools) == fits - 2
    begin = time.process_time()
    with pytest.raises(ValueRefused, match="the patterns of a profile") as refusal:
        load_profiles((head + of_tools([small(number) for number in range(fits + 300)])).encode())
    assert time.process_time() - begin < 20  # a few tenths of a second; each alone would be let through
    assert refusal.value.where is not None
    assert fits <= int(refusal.value.where.split(":")[1]) - 3 <= fits + 2


def test_one_pattern_of_many_tools_counts_once() -> None:
    text = "agent_configs:\n  dev:\n" + of_tools([small(1)] * 1000)
    assert len(load_profiles(text.encode()).profile("dev").policy.tools) == 1000


def test_the_patterns_of_a_file_are_bounded_together() -> None:
    each = MAX_WORK_OF_PROFILE // automaton(small(0)).work - 2
    text = "agent_configs:\n"
    for agent in range(5):
        numbers = range(agent * each, (agent + 1) * each)
        text += f"  dev{agent}:\n" + of_tools([small(number) for number in numbers])
    with pytest.raises(ValueRefused, match="the patterns of the file") as refusal:
        load_profiles(text.encode())
    last = 3 + 4 * (each + 2) - 1
    line, column = map(int, str(refusal.value.where).split(":")[1:])
    assert last + 1 < line < last + 20  # one of the first patterns of the last agent
    assert text.splitlines()[line - 1][column - 1 :].startswith("'(a|b)*a")
    assert MAX_WORK_OF_FILE == 4 * MAX_WORK_OF_PROFILE


def test_no_more_is_made_to_tell_every_mistake_than_a_file_may_cost(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many profiles use up what each of them has."""
    made = []
    determined = text_pattern._determined
    monkeypatch.setattr(text_pattern, "_determined", lambda *given: made.append(1) or determined(*given))
    cost = automaton(small(0)).work
    each = MAX_WORK_OF_PROFILE // cost - 2
    text = "agent_configs:\n"
    for agent in range(6):
        text += f"  dev{agent}:\n" + of_tools([small(9000 + agent * each + number) for number in range(each)])
    (found,) = every_refusal(text.encode(), source="p.yaml")
    assert "the patterns of the file" in found.message
    assert len(made) <= 1 + (MAX_WORK_OF_FILE + MAX_WORK) // (cost - 500)


def test_a_pattern_that_is_refused_counts_as_what_it_may_have_cost() -> None:
    work = Work(MAX_WORK_OF_PROFILE, "a profile")
    for number in range(4):
        with pytest.raises(ValueRefused, match="a pattern that is too large"):
            work.spend(str(number), lambda: automaton("([ -~]|a|b|c|d)*a[ -~]{9}"))
    with pytest.raises(ValueRefused, match="too large together"):
        work.spend("x", lambda: automaton(small(1)))
    with pytest.raises(ValueRefused, match="too large together"):
        work.spend("y", lambda: pytest.fail("made"))
    assert work.is_spent


def test_automata_are_kept_as_far_as_those_of_one_file_go() -> None:
    kept = text_pattern._Kept()
    large = Automaton(({},), frozenset({0}), MAX_WORK)
    for number in range(40):
        kept.keep(str(number), large)
        kept.get("0")
    assert kept.get("0") is large
    assert sum(kept.get(str(number)) is not None for number in range(40)) == MAX_WORK_OF_FILE // MAX_WORK + 1


def test_a_normal_form_is_bounded_as_a_file_is() -> None:
    """What the gateway reads of a session that it does not know yet."""
    fits = MAX_WORK_OF_PROFILE // automaton(small(0)).work
    one = load_profiles(("agent_configs:\n  dev:\n" + of_tools([small(7000)])).encode()).profile("dev")
    members = json.loads(one.normal_form)
    (tool,) = members["tools"]
    members["tools"] = [
        json.loads(json.dumps(tool).replace("7000", str(number)).replace('"t0"', f'"t{number:05}"'))
        for number in range(fits + 10)
    ]
    with pytest.raises(NormalFormRefused, match="the patterns of a profile"):
        read_normal_form(canonical(members))


def test_reading_a_pattern_takes_no_longer_than_its_length() -> None:
    """What is refused for its size is refused before anything of that size is made."""
    begin = time.process_time()
    for _ in range(2000):
        with pytest.raises(ValueRefused, match="too large"):
            read_pattern("(" * 15 + "a" + "{999})" * 15)
    assert time.process_time() - begin < 20
