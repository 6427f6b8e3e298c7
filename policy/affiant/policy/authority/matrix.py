"""Builds the table of who may do what: a row for each tool, model, path, endpoint, secret and so on.

A cell says what is true *for that agent* there, also where another rule of its profile gives it: a path through the
folder above, a host through a wildcard. Its letter has one of few meanings (:data:`MEANINGS`), its words say all.
Every report of an authority is made from these rows and cells: text, Markdown, HTML and graphs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, TypeVar

from affiant.policy.authority.authority import Authority, FileAuthority, SecretAuthority
from affiant.policy.authority.token_exchange_words import exchange_words
from affiant.policy.authority.tool_words import call_words, rate_words
from affiant.policy.authority.tools import ToolAuthority
from affiant.policy.authority.words import (
    OWNER_REACHES,
    PROVIDER_FETCHES,
    approved,
    endpoint_words,
    model_words,
    names_words,
    place_words,
    requests_words,
    rule_limit_words,
    start_words,
    unrestricted_words,
)
from affiant.policy.canonical.paths import covers
from affiant.policy.canonical.tool_origin import ANYWHERE
from affiant.policy.decision.decide import Effect
from affiant.policy.diff.reachable import Labels, Reach
from affiant.policy.model.profile import PathMode, PortRange

__all__ = ["ANY_MODEL", "MEANINGS", "PLANES", "Cell", "Column", "Row", "rows_of"]

MEANINGS: Final[Mapping[str, str]] = {
    "A": "allowed, with nothing that narrows it",
    "L": "allowed, limited: by arguments, server, methods, paths, denials, an attested upstream, tokens, part approval",
    "P": "only after approval",
    "R": "may be read",
    "W": "may be read and written",
    "S": "can be sent to a host",
    "U": "granted, and usable nowhere",
    "N": "never: a rule denies it",
}
"""The letters of a table with many agents. No letter: nothing allows it."""

PLANES: Final[Mapping[str, str]] = {
    "tool": "Tools",
    "provider_tool": "Provider tools",
    "model": "Models",
    "path": "Files",
    "egress": "Hosts",
    "secret": "Secrets",
    "port": "Ports",
    "start": "Agents to start",
}

ANY_MODEL: Final = "any model that the gateway serves"


@dataclass(frozen=True, slots=True, order=True)
class Row:
    """One thing; ``plane`` is one of :data:`PLANES`."""

    plane: str
    name: str


Said = tuple[str, tuple[str, ...]]
"""One line of words, and the rules behind it."""


@dataclass(frozen=True, slots=True)
class Cell:
    """What holds for one agent: a letter, empty where nothing allows it; and what there is to say."""

    letter: str = ""
    said: tuple[Said, ...] = ()

    @property
    def words(self) -> tuple[str, ...]:
        """The lines alone."""
        return tuple(words for words, _ in self.said)

    @property
    def rules(self) -> tuple[str, ...]:
        """The rules of all lines, once each."""
        return tuple(dict.fromkeys(rule for _, rules in self.said for rule in rules))


class Column:
    """One agent's cells, looked up by row.

    Args:
        formats: whether the formats of secrets are shown: a value may have been pasted there.
    """

    def __init__(self, authority: Authority, *, formats: bool = True) -> None:
        self.authority = authority
        self._formats = formats
        self._tools = _by_name((tool.name, tool) for tool in (*authority.tools, *authority.denied_tools))
        self._provider_tools = {tool.name: tool for tool in authority.provider_tools}
        self._models = {model.name: model for model in authority.models or ()}
        self._hosts = _by_name((reach.text, reach) for reach in authority.hosts)
        self._wildcards = [reach for reach in authority.hosts if reach.names.labels is not Labels.NONE]
        self._carved = [out for entry in authority.files for out in entry.except_paths]
        self._secrets = {secret.grant.name: secret for secret in authority.secrets}

    def cell(self, row: Row, reach: Reach | None) -> Cell:
        """Of any row of any agent; ``reach`` is the endpoint of a row for hosts."""
        if reach is not None:
            return self._host(row.name, reach)
        cells: Mapping[str, Callable[[str], Cell]] = {
            "tool": self._tool,
            "provider_tool": self._provider_tool,
            "model": self._model,
            "path": self._path,
            "secret": self._secret,
            "port": self._port,
            "start": self._start,
        }
        return cells[row.plane](row.name)

    def _tool(self, name: str) -> Cell:
        found = self._tools.get(name, ())
        return Cell(_strongest(map(_tool_letter, found)), tuple((_may(tool), tool.rules) for tool in found))

    def _provider_tool(self, name: str) -> Cell:
        tool = self._provider_tools.get(name)
        if tool is None:
            return Cell()
        if tool.effect is Effect.DENY:
            return Cell("N", (("never", tool.rules),))
        return Cell("A", ((f"yes: {PROVIDER_FETCHES}", tool.rules),))

    def _start(self, name: str) -> Cell:
        start = next((each for each in self.authority.may_start if each.agent == name), None)
        if start is None:
            return Cell()
        if start.effect is Effect.DENY:
            return Cell("N", (("never", start.rules),))
        words = start_words(start)
        letter = "P" if start.effect is Effect.ASK else "L" if words else "A"
        return Cell(letter, ((f"yes{words}{approved(start.effect)}", start.rules),))

    def _port(self, name: str) -> Cell:
        """Builds the cell of a port range, of which this agent may have only a part."""
        first, _, last = name.partition("-")
        row = PortRange(int(first), int(last or first))
        met = [
            (each, PortRange(max(each.ports.first, row.first), min(each.ports.last, row.last)))
            for each in self.authority.ports
            if each.ports.first <= row.last and row.first <= each.ports.last
        ]
        allowed = [(each, ports) for each, ports in met if each.effect is not Effect.DENY]
        if not allowed:
            return Cell("N", tuple(("never", each.rules) for each, _ in met)) if met else Cell()
        whole = sum(ports.last - ports.first + 1 for _, ports in allowed) == row.last - row.first + 1
        said = tuple(
            (f"{'yes' if ports == row else ports.text}: {OWNER_REACHES}", each.rules)
            for each, ports in allowed
        )
        return Cell("A" if whole else "L", said)

    def _model(self, name: str) -> Cell:
        model = self._models.get(name)
        if model is not None:
            words = model_words(model)
            return Cell("L" if words else "A", ((f"yes{words}", model.rules),))
        return Cell("A", (("yes", ()),)) if self.authority.models is None else Cell()

    def _path(self, path: str) -> Cell:
        for mode, letter in ((PathMode.READ_WRITE, "W"), (PathMode.READ, "R")):
            decision = self.authority.compiled.decide_path(path, mode)
            if decision.effect is Effect.ALLOW:
                below = sum(covers(path, out.path) for out in self._carved)
                but = f" but {below} path{'s' * (below > 1)}" if below else ""
                return Cell(letter, ((f"{mode.value}, and all below{but}", decision.rules),))
        over = next((out for out in self._carved if covers(out.path, path)), None)
        return Cell() if over is None else Cell("N", (("never", over.rules),))

    def _host(self, name: str, row: Reach) -> Cell:
        own = self._hosts.get(name)
        if own:
            said = tuple(line for reach in own for line in self._requests(reach))
            return Cell(_strongest(map(_host_letter, own)), said)
        over = [each for each in self._wildcards if each.covers(row.names.sample, row.port, row.scheme)]
        return Cell(
            _strongest(map(_host_letter, over)), tuple((f"as {reach.text}", reach.rules) for reach in over)
        )

    def _requests(self, reach: Reach) -> Iterator[Said]:
        for words in (names_words(reach.names), unrestricted_words(reach), endpoint_words(reach)):
            if words:
                yield words, ()
        for group in reach.requests:
            yield requests_words(group) + rule_limit_words(self.authority, group.rules), group.rules
        if reach.denials:
            yield "denials here", reach.denials

    def _secret(self, name: str) -> Cell:
        found = self._secrets.get(name)
        if found is None:
            return Cell()
        asks = all(sink.effect is Effect.ASK for sink in found.sinks)
        return Cell("U" if not found.sinks else "P" if asks else "S", tuple(self._uses(found)))

    def _uses(self, secret: SecretAuthority) -> Iterator[Said]:
        inject = secret.grant.inject
        limits = rule_limit_words(self.authority, (secret.rule,))
        yield f"in {place_words(inject, formats=self._formats)}{limits}", (secret.rule,)
        if inject.exchange is not None:
            yield exchange_words(inject.exchange), ()
        for sink in secret.sinks:
            yield f"to {sink.host}:{sink.port}{approved(sink.effect)}", sink.rules[1:]
        for vain in secret.unusable:
            yield f"not to {vain.host}:{vain.port}: {vain.decision.text}", ()
        if not secret.sinks:
            yield "granted, and usable nowhere", ()
        if not secret.grant.hosts:
            yield "the profile has no https host at which it may be used", ()


_T = TypeVar("_T")


def _by_name(pairs: Iterable[tuple[str, _T]]) -> Mapping[str, Sequence[_T]]:
    found: dict[str, list[_T]] = {}
    for name, each in pairs:
        found.setdefault(name, []).append(each)
    return found


def _strongest(letters: Iterable[str]) -> str:
    """Of several rules for one thing: what allows most; what is in part only after approval is limited."""
    found = set(letters)
    if "P" in found and found & {"A", "L"}:
        return "L"
    return next((letter for letter in "ALPN" if letter in found), "")


def _tool_letter(tool: ToolAuthority) -> str:
    if tool.effect is Effect.ALLOW:
        return "A" if tool.arguments is None and tool.origin == ANYWHERE else "L"
    return "N" if tool.effect is Effect.DENY else "P"


def _may(tool: ToolAuthority) -> str:
    if tool.effect is not Effect.DENY:
        return f"yes{call_words(tool)}{approved(tool.effect)}{rate_words(tool)}"
    vain = f"{call_words(tool)}: no path or host that its arguments may name is allowed" if tool.vain else ""
    return f"never{vain}"


def _host_letter(reach: Reach) -> str:
    if reach.effect is Effect.ASK:
        return "P"
    whole = reach.unrestricted and len(reach.requests) == 1 and not reach.denials
    return "A" if whole else "L"


def rows_of(authorities: Iterable[Authority]) -> Mapping[Row, Reach | None]:
    """Every row that one of them has, by planes and names; with the endpoint of a row for hosts."""
    found: dict[Row, Reach | None] = {}
    for each in authorities:
        for row, reach in _rows(each):
            found.setdefault(row, reach)
    order = list(PLANES)
    keys = sorted(found, key=lambda row: (order.index(row.plane), row.name == ANY_MODEL, _by_number(row)))
    return {row: found[row] for row in keys}


def _by_number(row: Row) -> str:
    """What rows of a plane are ordered by: their names; ports by their numbers."""
    return row.name.partition("-")[0].zfill(5) + row.name if row.plane == "port" else row.name


def _rows(authority: Authority) -> Iterator[tuple[Row, Reach | None]]:
    yield from ((Row("tool", tool.name), None) for tool in (*authority.tools, *authority.denied_tools))
    yield from ((Row("provider_tool", tool.name), None) for tool in authority.provider_tools)
    yield from ((Row("model", model.name), None) for model in authority.models or ())
    if authority.models is None:
        yield Row("model", ANY_MODEL), None
    yield from ((Row("path", path), None) for entry in authority.files for path in _paths(entry))
    yield from ((Row("egress", reach.text), reach) for reach in authority.hosts)
    yield from ((Row("secret", secret.grant.name), None) for secret in authority.secrets)
    yield from ((Row("port", each.ports.text), None) for each in authority.ports)
    yield from ((Row("start", start.agent), None) for start in authority.may_start)


def _paths(entry: FileAuthority) -> Sequence[str]:
    return [entry.path, *(carved.path for carved in entry.except_paths)]
