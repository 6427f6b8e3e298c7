"""``affiant policy who-can`` lists which agents of a file may do one thing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from affiant.command_line import EXIT_REFUSED, print_json, printable
from affiant.policy.authority.who_can import AgentDecision, who_can
from affiant.policy.authority.words import NOBODY_APPROVES, PROVIDER_FETCHES
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import ProviderToolQuestion, Question, parse_question
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.rendering.terminal import entry_lines, floor_option

__all__ = ["who_can_command"]


@click.command("who-can")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("request")
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@floor_option
def who_can_command(file: Path, request: str, *, floor: Path | None, as_json: bool) -> None:
    """Show for every agent of FILE whether it may do REQUEST, by which rule, or why not.

    An action that a person must approve first counts as allowed, and is marked. So does a model that is allowed only
    at an attested upstream.

    Exit codes: 0 at least one agent may, perhaps after approval; 1 none may, or the file or the request is
    rejected; 2 the command line is wrong.

    \b
    Requests:
      tool:NAME   'tool:NAME {"argument": 1}'   provider_tool:NAME   model:NAME   read:/path   write:/path
      connect:HOST[:PORT]      'METHOD https://host/path'      secret:NAME@HOST[:PORT]      port:NUMBER      start:AGENT

    \b
    Examples:
      affiant policy who-can profiles.yaml tool:kubectl_apply
      affiant policy who-can profiles.yaml write:/workspace/a.py
      affiant policy who-can profiles.yaml 'DELETE https://api.example.com/v1/x'
      affiant policy who-can profiles.yaml secret:DEPLOY_KEY@api.example.com --json
    """
    question = parse_question(request)
    decisions = who_can(read_profiles(file, floor=floor), question)
    if as_json:
        print_json({"request": request, "agents": [_document(found) for found in decisions]})
    else:
        for line in _lines(question, request, decisions):
            click.echo(line)
    if not any(found.may for found in decisions):
        raise click.exceptions.Exit(EXIT_REFUSED)


def _lines(question: Question, request: str, decisions: Sequence[AgentDecision]) -> Iterator[str]:
    count = sum(found.may for found in decisions)
    yield printable(f"{count} of {len(decisions)} agents may: {request}").replace("\n", "\\n")
    for found in decisions:
        text = f"{found.profile.name}: {_words(found)}"
        yield from entry_lines(
            text, indent=2, at=", ".join(f"{rule} {found.profile.where(rule)}" for rule in _rules(found))
        )
    if count and isinstance(question, ProviderToolQuestion):
        yield from entry_lines(PROVIDER_FETCHES, indent=0)
    if any(found.decision.effect is Effect.ASK for found in decisions):
        yield from entry_lines(NOBODY_APPROVES, indent=0)


def _words(found: AgentDecision) -> str:
    if found.may:
        after = " after approval" if found.decision.effect is Effect.ASK else ""
        return f"may{after}{f', only {found.only}' if found.only else ''}"
    by = "; by" if found.decision.rules else "; nearest rule" if found.decision.nearest is not None else ""
    return f"may not: {found.decision.text} ({found.decision.reason}){by}"


def _rules(found: AgentDecision) -> Sequence[str]:
    nearest = found.decision.nearest
    return found.decision.rules or (() if nearest is None else (nearest,))


def _document(found: AgentDecision) -> Mapping[str, object]:
    return {
        **found.profile.decided(found.decision),
        "agent": found.profile.name,
        "may": found.may,
        "effect": found.decision.effect.value,
        "text": found.decision.text,
        "only": found.only or None,
        "policy_digest": found.profile.digest,
    }
