"""Writes Cedar's syntax: strings, patterns, conditions and policies.

Cedar 4, "Policy syntax": a string escapes as in Rust, ``*`` in the pattern of ``like`` stands for any characters.

>>> cedar_string('a"é'), like("context.host", "*.", "example.com")
('"a\\\\"\\\\u{e9}"', 'context.host like "*.example.com"')
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

__all__ = ["all_of", "any_of", "cedar_set", "cedar_string", "like", "negated", "policy"]


def cedar_string(text: str) -> str:
    """``text`` as a literal of ASCII."""
    return f'"{_escaped(text)}"'


def cedar_set(values: Iterable[str | int]) -> str:
    """A set of texts or of integers."""
    texts = [cedar_string(value) if isinstance(value, str) else str(value) for value in values]
    return f"[{', '.join(texts)}]"


def like(subject: str, pattern: str, literal: str, behind: str = "") -> str:
    """Whether ``subject`` is ``literal`` between two patterns, in which ``*`` is any text."""
    return f'{subject} like "{pattern}{_escaped(literal).replace("*", chr(92) + "*")}{behind}"'


def all_of(conditions: Sequence[str]) -> str:
    """All of the conditions; none: true."""
    return _joined(conditions, " && ") or "true"


def any_of(conditions: Sequence[str]) -> str:
    """Any of the conditions; none: false."""
    return _joined(conditions, " || ") or "false"


def negated(condition: str) -> str:
    """Not so."""
    return f"!({condition})"


def policy(
    effect: str, *, rule: str, where: str, scope: Sequence[str], when: str = "true", unless: str = "false"
) -> str:
    """One policy with the id and the place of the rule that it comes from.

    Args:
        effect: ``permit`` or ``forbid``.
        scope: the constraints of principal, action and resource.
    """
    lines = [
        f"@id({cedar_string(rule)})",
        f"@where({cedar_string(where)})",
        f"{effect} (",
        "  " + ",\n  ".join(scope),
        ")",
        *([] if when == "true" else [f"when {{ {when} }}"]),
        *([] if unless == "false" else [f"unless {{ {unless} }}"]),
    ]
    return "\n".join(lines) + ";\n"


def _joined(conditions: Sequence[str], word: str) -> str:
    if len(conditions) == 1:
        return conditions[0]
    return word.join(f"({condition})" for condition in conditions)


def _escaped(text: str) -> str:
    return "".join(_escape(char) for char in text)


def _escape(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    return char if " " <= char <= "~" else f"\\u{{{ord(char):x}}}"
