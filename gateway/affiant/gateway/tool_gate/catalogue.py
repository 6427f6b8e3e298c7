"""What the servers serve, as one agent may see it.

A tool is its name, its description and the schema of its arguments: what a model reads, what a profile pins, and all
that is passed on. Titles, annotations and schemas of results, which could say something else tomorrow, are not.

A name is one tool. Where two servers serve one name, the one that the profile's rules name is meant, and without such a
rule none. What a server said of a tool first holds for as long as this gateway runs: a tool that says something else
later is refused, unless the profile pins what it says now.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from affiant.gateway.requests.policy_gate import decide_call
from affiant.gateway.sessions.decisions import SILENT, DecisionSink
from affiant.gateway.tool_gate.schema_check import fits
from affiant.gateway.wire.errors import ToolNameAmbiguous, ToolNotAllowedError
from affiant.policy.approvals.bindable import some_bindable
from affiant.policy.canonical.errors import NameRefused, ToolDefinitionRefused
from affiant.policy.canonical.names import check_tool_name
from affiant.policy.canonical.tool_origin import ANYWHERE, Origin, tool_digest
from affiant.policy.decision.compiled import CompiledPolicy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import ToolQuestion

__all__ = ["MAX_TOOLS", "Catalogue", "FirstSeen", "ServedTool", "served_tools"]

MAX_TOOLS: Final = 512
"""Of one server, at one time."""
_MAX_SEEN: Final = 4096
"""Names of one server in one boot: each is kept in memory."""


@dataclass(frozen=True, slots=True)
class ServedTool:
    """A tool as a server offers it; ``digest`` is of all that is passed on."""

    server: str
    name: str
    description: str
    schema: Mapping[str, object]
    digest: str

    @property
    def origin(self) -> Origin:
        """Where it comes from."""
        return Origin(self.server, self.digest)

    def to_json(self) -> Mapping[str, object]:
        """Its entry in a listing: nothing but what the digest covers."""
        described = {"description": self.description} if self.description else {}
        return {"name": self.name, **described, "inputSchema": self.schema}


def served_tools(server: str, entries: Sequence[object]) -> tuple[ServedTool, ...]:
    """The tools in a server's listing; what has no name that a profile could list, or no digest, is none of them.

    A name that occurs twice in one listing is left out: it is not known which is meant.
    """
    tools: dict[str, ServedTool | None] = {}
    for entry in entries[:MAX_TOOLS]:
        tool = _tool(server, entry)
        if tool is not None:
            tools[tool.name] = None if tool.name in tools else tool
    return tuple(tool for tool in tools.values() if tool is not None)


def _tool(server: str, entry: object) -> ServedTool | None:
    if not isinstance(entry, dict):
        return None
    name, described, schema = entry.get("name"), entry.get("description"), entry.get("inputSchema")
    if (
        not isinstance(name, str)
        or not isinstance(described, (str, type(None)))
        or not isinstance(schema, dict)
    ):
        return None
    try:
        check_tool_name(name)
        return ServedTool(server, name, described or "", schema, tool_digest(name, described or "", schema))
    except (NameRefused, ToolDefinitionRefused):
        return None


class FirstSeen:
    """What each server said first of each of its tools, in this boot."""

    def __init__(self) -> None:
        self._digests: dict[tuple[str, str], str] = {}
        self._counts: Counter[str] = Counter()

    def note(self, tools: Iterable[ServedTool]) -> tuple[ServedTool, ...]:
        """Keep what is seen for the first time.

        Returns:
            The tools without those that a server names beyond the bound: it is not known whether they change.
        """
        return tuple(tool for tool in tools if self._noted(tool))

    def _noted(self, tool: ServedTool) -> bool:
        if not self.has(tool.server, tool.name):
            if self._counts[tool.server] >= _MAX_SEEN:
                return False
            self._counts[tool.server] += 1
            self._digests[tool.server, tool.name] = tool.digest
        return True

    def has(self, server: str, name: str) -> bool:
        """Whether this server has served a tool of this name."""
        return (server, name) in self._digests

    def changed(self, tool: ServedTool) -> bool:
        """Whether it says something else than at first."""
        return self._digests.get((tool.server, tool.name), tool.digest) != tool.digest


@dataclass(frozen=True, slots=True)
class Catalogue:
    """The tools of all servers that answered, before one profile.

    Args:
        unavailable: servers that did not answer, each with the stable code of why.
        folders: by server, where what its paths lead to can be read and be handed to it as a copy.
    """

    policy: CompiledPolicy
    tools: tuple[ServedTool, ...]
    seen: FirstSeen
    unavailable: Mapping[str, str] = field(default_factory=dict)
    folders: Mapping[str, Sequence[str]] = field(default_factory=dict)

    def visible(self) -> tuple[ServedTool, ...]:
        """What may be shown: each may be called with some arguments, perhaps once a person agrees. Sorted by name."""
        found = []
        for name in sorted({tool.name for tool in self.tools}):
            try:
                tool = self.find(name)
            except ToolNameAmbiguous:
                continue
            if self._callable(tool) and not self._unpinned_change(tool):
                found.append(tool)
        return tuple(found)

    def _callable(self, tool: ServedTool) -> bool:
        decision = self.policy.decide_tool(tool.name, tool.origin)
        if decision.effect is Effect.ASK:
            return some_bindable(self.policy.policy, decision.rules, self.folders.get(tool.server, ()))
        return decision.allowed

    def judge(
        self, name: str, arguments: Mapping[str, object], text: str, *, sink: DecisionSink = SILENT
    ) -> tuple[ServedTool, Decision]:
        """The tool that a call means, and the decision that allows it, or asks for approval.

        Args:
            text: JSON of ``arguments``.
            sink: takes the profile's decision before it has any effect. What the gate itself refuses is no such one.

        Raises:
            ToolNotAllowedError: the profile denies the call; or ``tool.unknown``, ``tool.schema_changed``,
                ``tool.arguments``: it is not known what the call means.
            ToolNameAmbiguous: two servers offer the name.
        """
        listed = self.policy.decide_tool(name, ANYWHERE)
        if (
            listed.effect is Effect.DENY and listed.reason != "approval_no_approver"
        ):  # reported before anything about servers: an agent learns nothing of tools that are not its
            sink(ToolQuestion(name, text, ANYWHERE), listed)
            raise ToolNotAllowedError(listed.text, reason=listed.reason, rules=listed.rules)
        tool = self.find(name)
        decision = decide_call(self.policy, name, text, tool.origin)
        question = ToolQuestion(name, text, tool.origin)
        if decision.effect is Effect.DENY:
            sink(question, decision)
        if decision.reason == "tool_schema_changed" or self._unpinned_change(tool):
            raise ToolNotAllowedError(
                "the server says something else of this tool than was agreed to",
                reason="tool_schema_changed",
                rules=decision.rules,
                hint="Have its definition reviewed, and pin it",
                code="tool.schema_changed",
            )
        if decision.effect is Effect.DENY:
            raise ToolNotAllowedError(decision.text, reason=decision.reason, rules=decision.rules)
        if not fits(arguments, tool.schema):
            raise ToolNotAllowedError(
                "the arguments do not fit the tool's own schema",
                where="params.arguments",
                code="tool.arguments",
            )
        sink(question, decision)
        return tool, decision

    def find(self, name: str) -> ServedTool:
        """The one tool of this name.

        Raises:
            ``tool.unknown``: no server serves it. ToolNameAmbiguous: several do, and no rule says which is meant.
        """
        serving = [tool for tool in self.tools if tool.name == name]
        named = self.policy.tool_servers(name)
        if len(serving) > 1:
            serving = [tool for tool in serving if tool.server in named]
            if len(serving) != 1:
                raise ToolNameAmbiguous(
                    "several servers serve a tool of this name",
                    reason="tool_name_ambiguous",
                    hint="Name the server in the profile's rule: {name: ..., server: ...}",
                )
        if not serving:
            down = sorted(set(self.unavailable) & (named or set(self.unavailable)))
            raise ToolNotAllowedError(
                "no server serves a tool of this name" + (", and some do not answer" if down else ""),
                code="tool.unknown",
            )
        if serving[0].server not in named and self._seen_elsewhere(serving[0]):
            raise ToolNameAmbiguous(
                "another server serves a tool of this name, and does not answer", reason="tool_name_ambiguous"
            )
        return serving[0]

    def _seen_elsewhere(self, tool: ServedTool) -> bool:
        """Whether a server that does not answer now has served this name before: its absence decides nothing."""
        return any(self.seen.has(server, tool.name) for server in self.unavailable)

    def _unpinned_change(self, tool: ServedTool) -> bool:
        """Whether it says something else than at first, and some rule that allows it does not pin what it says now."""
        unpinned = self.policy.decide_tool(tool.name, Origin(tool.server, None))
        return self.seen.changed(tool) and unpinned.reason != "tool_schema_changed"
