"""Makes the list of rules, agent by agent, as written and with their lines."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from affiant.policy.authority.authority import Authority
from affiant.policy.authority.words import place_words, settings_lines
from affiant.policy.editor.rule_text import brief_rule_text
from affiant.policy.model.profile import Rule, SecretGrant
from affiant.policy.review.page_text import LongText, PublicText
from affiant.policy.review.review import Review
from affiant.policy.review.summary import in_short

__all__ = ["rules"]

_MOST: Final = 1900
"""Characters of one rule, below the bound of a long text."""


def rules(review: Review) -> Sequence[Mapping[str, object]]:
    """The rules of each agent, and the rest of its profile."""
    return [
        {
            "agent": each.agent,
            "says": in_short(each),
            "rules": list(_rows(review, each)),
            "rest": [PublicText(line) for line in settings_lines(each)],
        }
        for each in review.new.agents
    ]


def _rows(review: Review, authority: Authority) -> Iterator[Mapping[str, object]]:
    before = None if review.old is None else review.old.profiles.profiles.get(authority.agent)
    known = frozenset(() if before is None else before.policy.rules.values())
    for rule_id, rule in authority.profile.policy.rules.items():
        yield {
            "id": rule_id,
            "says": _written(rule),
            "is_new": review.old is not None and rule not in known,
            "where": review.new.rules(authority, (rule_id,)),
        }


def _written(rule: Rule) -> LongText:
    """As a profile writes it, without shapes and unusual formats of secrets: a value may have been pasted there."""
    if isinstance(rule, SecretGrant):
        inject = rule.inject
        if place_words(inject) != place_words(inject, formats=False):
            inject = replace(inject, format="*** {}")
        rule = replace(rule, inject=inject, shape=None)
    return LongText(brief_rule_text(rule, most=_MOST))
