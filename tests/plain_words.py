"""Finds the words that this project does not use with its readers, and the texts that readers see.

The rows are those of the project's word list that a regular expression can decide. Names of record kinds, options and
members stay: texts in code spans and code blocks are not looked at.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import click

__all__ = ["PACKAGES", "ROOT", "WORDS", "Text", "Use", "help_texts", "module_texts", "page_texts", "uses"]

ROOT: Final = Path(__file__).resolve().parents[1]
PACKAGES: Final = ("attestation", "policy", "secrets", "sandbox", "gateway")

WORDS: Final = {
    r"refusals?": "error, rejection",
    r"instants?": "timestamp, time",
    r"spellings?": "encoding, canonical form",
    r"narrow(s|ed|er|ing|ings)?": "restrict, permission restriction",
    r"floors?": "baseline policy, minimum isolation, lower bound",
    r"openings": "sealed disclosures",
    r"brackets? of time": "time bounds",
    r"a turn|turns? at": "upstream slot",
    r"desks?|mailbox(es)?": "approval queue",
    r"cards?": "approval prompt",
    r"keepers?": "service supervisor",
    r"crews?": "worker pool",
    r"cut off": "interrupted",
    r"giv(e|es|en|ing) up|gave up": "abandoned, timed out",
    r"told|tells?|telling": "reports, returns",
    r"stands? (in|at|beside|behind)": "is in, is at",
    r"lets? go": "release",
    r"weights?": "severity",
    r"rims?": "I/O boundary",
    r"rooms?(?! for)": "package",
    r"one reading": "strict JSON",
    r"other models": "model fallbacks",
    r"key guards?": "upstream key redaction",
    r"named parties": "trusted keys",
    r"people met": "actors",
    r"taking|quote taken": "collecting evidence",
    r"evidence sources?|sources? of evidence": "evidence providers",
    r"published files?": "signed files",
    r"passages?": "passthrough tunnel",
}
"""What is not written -> what is."""
_WORDS: Final = re.compile(r"\b(?:" + "|".join(WORDS) + r")\b", re.IGNORECASE)
_FENCED: Final = re.compile(r"^ *(```|~~~).*?^ *\1", re.MULTILINE | re.DOTALL)
_CODE: Final = re.compile(r"``[^`]*``|`[^`]*`|:\w+:`[^`]*`")
_TARGET: Final = re.compile(r"\]\([^)]*\)")


class Text(NamedTuple):
    """One text, and where its readers find it."""

    where: str
    line: int
    text: str


class Use(NamedTuple):
    """A word that is not used with readers, and the words around it."""

    where: str
    line: int
    word: str
    phrase: str


def uses(text: Text, *, around: int = 3) -> Iterator[Use]:
    """The words of ``text`` that are not used with readers."""
    plain = _blanked(_CODE, text.text)
    for found in _WORDS.finditer(plain):
        before = plain[: found.start()].split()[-around:]
        after = plain[found.end() :].split()[:around]
        line = text.line + plain.count("\n", 0, found.start())
        yield Use(text.where, line, found[0].lower(), " ".join([*before, found[0], *after]))


def page_texts(paths: Iterator[Path], *, below: Path = ROOT) -> Iterator[Text]:
    """Markdown, without code blocks and the targets of links."""
    for path in sorted(paths):
        text = path.read_text(encoding="utf-8")
        yield Text(str(path.relative_to(below)), 1, _blanked(_TARGET, _blanked(_FENCED, text)))


def module_texts(place: Path) -> Iterator[Text]:
    """Of a module, or of each in a folder: its docstring's first paragraph, and the literals in errors, but codes."""
    for path in sorted(place.rglob("*.py")) if place.is_dir() else (place,):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        first = (ast.get_docstring(tree) or "").partition("\n\n")[0]
        yield Text(_name(path), 1, first)
        for node in ast.walk(tree):
            if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call):
                codes = _codes_in(node.exc)
                yield from (
                    _literal(path, each)
                    for each in ast.walk(node.exc)
                    if _is_text(each) and each not in codes
                )


def help_texts(command: click.Command, name: str) -> Iterator[Text]:
    """The help of ``command``, of its options and of every command below it."""
    yield Text(f"{name} --help", 1, command.help or "")
    if command.short_help:
        yield Text(f"{name} --help", 1, command.short_help)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            yield Text(f"{name} {parameter.opts[0]}", 1, parameter.help or "")
    if isinstance(command, click.Group):
        context = click.Context(command)
        for below in command.list_commands(context):
            found = command.get_command(context, below)
            if found is not None:
                yield from help_texts(found, f"{name} {below}")


def _blanked(pattern: re.Pattern[str], text: str) -> str:
    """``text`` with what matches replaced by its line ends, so that lines keep their numbers."""
    return pattern.sub(lambda found: "…" + "\n" * found[0].count("\n"), text)


def _codes_in(call: ast.Call) -> set[ast.AST]:
    """The values of ``code=``: names that programs read, and that stay."""
    given = (each for each in ast.walk(call) if isinstance(each, ast.keyword) and each.arg == "code")
    return {node for keyword in given for node in ast.walk(keyword.value)}


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _literal(path: Path, node: ast.AST) -> Text:
    assert isinstance(node, ast.Constant)
    return Text(_name(path), node.lineno, str(node.value))


def _name(path: Path) -> str:
    return str(path.relative_to(ROOT))
