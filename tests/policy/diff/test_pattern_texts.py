"""For every text there is one among the answers that all patterns, texts and lengths judge alike."""

from __future__ import annotations

import random

from tests.policy.model.test_text_pattern import some_pattern, walked

from affiant.policy.diff.pattern_texts import judged_texts
from affiant.policy.model.text_pattern import automaton


def test_every_text_is_judged_like_one_of_the_answers() -> None:
    source = random.Random(7)
    for _ in range(150):
        patterns = [automaton(some_pattern(source, 2)) for _ in range(source.randrange(1, 4))]
        ends = [each.longest if each.longest is not None else source.randrange(1, 6) for each in patterns]
        literals = source.sample(["", "a", "ab", "abc", "b-", "\u00e9", "zz"], k=source.randrange(4))
        bounds = source.sample(range(1, 7), k=source.randrange(3))

        def judged(text: str) -> tuple[object, ...]:
            fits = [
                each.fits(text) and len(text) <= end
                for each, end in zip(patterns, ends, strict=True)  # noqa: B023
            ]
            return (*fits, text if text in literals else None, *(len(text) <= each for each in bounds))  # noqa: B023

        found = judged_texts(patterns, literals=literals, bounds=[*bounds, *ends])
        assert found is not None
        known = {judged(text) for text in found}
        texts = ["".join(source.choices("abc.-x\u00e9\u00ea", k=source.randrange(9))) for _ in range(60)]
        texts += [text for each in patterns for _ in range(8) if (text := walked(each, source)) is not None]
        for text in texts:
            assert judged(text) in known, text


def test_what_takes_too_long_to_walk_has_no_answer() -> None:
    large = automaton("(a|b)*a(a|b){8}")
    assert judged_texts([large], literals=[], bounds=[30_000]) is None


def test_an_answer_is_easy_to_read() -> None:
    found = judged_texts([automaton("release/[ -~]{1,3}")], literals=[], bounds=[])
    assert found is not None and "release/x" in found
