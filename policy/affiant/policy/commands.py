"""The commands of ``affiant policy``, with which a reviewer checks a profile before it ships."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from affiant.command_line import EXIT_REFUSED, Group, print_json, printable
from affiant.policy.authority.can_command import can
from affiant.policy.authority.who_can_command import who_can_command
from affiant.policy.decision.applied_limits import applied_limits
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import ModelQuestion, answer, parse_question
from affiant.policy.diff.diff_command import diff
from affiant.policy.editor.completion import complete_agents
from affiant.policy.editor.rule_command import rule_command
from affiant.policy.editor.schema_command import schema
from affiant.policy.exports.compile_command import compile_profile
from affiant.policy.learn.learn_command import learn_policy
from affiant.policy.lint.lint_command import lint
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.model.share import NO_SHARE, share_words
from affiant.policy.rendering.terminal import floor_option
from affiant.policy.replay.decisions_command import decisions_command
from affiant.policy.replay.simulate_command import simulate_policy
from affiant.policy.review_page.report_command import report
from affiant.policy.signing.sign_command import sign
from affiant.policy.signing.verify_command import verify
from affiant.policy.testing.try_command import try_profiles

__all__ = ["policy"]

_FILE = click.argument("file", type=click.Path(path_type=Path))
_JSON = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


@click.group(cls=Group)
def policy() -> None:
    """Read, check and digest permission profiles.

    \b
    Examples:
      affiant policy lint profiles.yaml
      affiant policy digest profiles.yaml code_implementer
      affiant policy explain profiles.yaml code_implementer tool:run_tests
      affiant policy explain profiles.yaml deployment_agent 'GET https://api.example.com/v1'
      affiant policy show profiles.yaml log_analyzer
      affiant policy rule profiles.yaml egress/0 --digest sha384:5a0c...
      affiant policy diff before.yaml after.yaml --fail-on widen
      affiant policy schema > profile.schema.json
      affiant policy test profiles.yaml --coverage --mutation
      affiant policy simulate --log decisions.jsonl after.yaml --fail-on widen
      affiant policy learn --log decisions.jsonl --from profiles.yaml -o proposal.yaml
      affiant policy decisions decisions.jsonl --decision deny
      affiant policy can profiles.yaml deployment_agent
      affiant policy who-can profiles.yaml tool:kubectl_apply
      affiant policy sign profiles.yaml --key reviewer.pem
      affiant policy verify profiles.yaml --key reviewer.pub.pem
      affiant policy compile profiles.yaml code_implementer --target srt
      affiant policy report after.yaml --against before.yaml -o report.html
    """


for _command in (
    *(compile_profile, decisions_command, diff, lint, schema, sign, simulate_policy, learn_policy),
    *(try_profiles, can, verify, who_can_command, report, rule_command),
):
    policy.add_command(_command)


@policy.command()
@_FILE
@click.argument("agent", required=False, shell_complete=complete_agents("file"))
@_JSON
@floor_option
def digest(file: Path, agent: str | None, *, floor: Path | None, as_json: bool) -> None:
    """Print the digests of FILE and its profiles, or that of one AGENT.

    A profile's digest (sha384) covers its meaning; the file's source digest (sha256) covers its bytes.

    Exit codes: 0 printed; 1 the file is rejected, or has no such agent; 2 the command line is wrong.

    \b
    Examples:
      affiant policy digest profiles.yaml
      affiant policy digest profiles.yaml code_implementer
    """
    profiles = read_profiles(file, floor=floor)
    if agent is not None:
        profile = profiles.profile(agent)
        if as_json:
            print_json({"agent": agent, "digest": profile.digest})
        else:
            click.echo(profile.digest)
        return
    digests = {name: profile.digest for name, profile in profiles.profiles.items()}
    if as_json:
        print_json({"digest": profiles.digest, "source_digest": profiles.source_digest, "profiles": digests})
        return
    for name, value in digests.items():
        click.echo(f"{value}  {name}")
    click.echo(f"{profiles.digest}  (all profiles)")
    click.echo(f"{profiles.source_digest}  (bytes of the file)")


@policy.command()
@_FILE
@click.argument("agent", shell_complete=complete_agents("file"))
@click.argument("request")
@_JSON
@floor_option
def explain(file: Path, agent: str, request: str, *, floor: Path | None, as_json: bool) -> None:
    """Say what AGENT's profile decides about REQUEST, and by which rule.

    Exit codes: 0 allowed; 1 denied, or allowed only after approval, or the file or the request is rejected; 2 the
    command line is wrong.

    \b
    Requests:
      tool:NAME   provider_tool:NAME   model:NAME   read:/path   write:/path
      connect:HOST[:PORT]      'METHOD https://host/path'      secret:NAME@HOST[:PORT]      port:NUMBER      start:AGENT

    \b
    Examples:
      affiant policy explain profiles.yaml code_implementer tool:run_tests
      affiant policy explain profiles.yaml code_implementer write:/workspace/a.py
      affiant policy explain profiles.yaml deployment_agent 'POST https://api.example.com/v1/x'
      affiant policy explain profiles.yaml deployment_agent secret:DEPLOY_KEY@api.example.com
    """
    profile = read_profiles(file, floor=floor).profile(agent)
    question = parse_question(request)
    decision = answer(profile.compiled, question)
    limits = (
        applied_limits(profile.compiled, question, decision) if decision.effect is not Effect.DENY else ()
    )
    if as_json:
        print_json(
            {
                **profile.decided(decision),
                "agent": agent,
                "request": request,
                "effect": decision.effect.value,
                "text": decision.text,
                "limits": [list(each) for each in limits],
                "policy_digest": profile.digest,
            }
        )
    else:
        click.echo(printable(f"{decision.effect.value}: {request}"))
        click.echo(f"  because {decision.text} [{decision.reason}]")
        for rule in decision.rules:
            click.echo(f"  rule {rule} at {profile.where(rule)}")
        for rule, words in limits:
            click.echo(f"  limit {rule}: {words}, at {profile.where(rule)}")
        if isinstance(question, ModelQuestion) and decision.allowed and profile.compiled.share != NO_SHARE:
            click.echo(f"  in the queue for an upstream: {share_words(profile.compiled.share)}")
        if decision.nearest is not None:
            click.echo(f"  nearest {decision.nearest} at {profile.where(decision.nearest)}")
        click.echo(f"  policy {profile.digest}")
    if not decision.allowed:
        raise click.exceptions.Exit(EXIT_REFUSED)


@policy.command()
@_FILE
@click.argument("agent", shell_complete=complete_agents("file"))
@_JSON
@floor_option
def show(file: Path, agent: str, *, floor: Path | None, as_json: bool) -> None:
    """Print the normal form of AGENT's profile, which its digest covers.

    With --json, print exactly the canonical bytes (RFC 8785), without a line feed at the end. Otherwise print one
    rule on each line, with its place in the file.

    Exit codes: 0 printed; 1 the file is rejected, or has no such agent; 2 the command line is wrong.

    \b
    Examples:
      affiant policy show profiles.yaml code_implementer
      affiant policy show profiles.yaml code_implementer --json > policy.json
    """
    profile = read_profiles(file, floor=floor).profile(agent)
    if as_json:
        click.echo(profile.normal_form, nl=False)
        return
    form: Mapping[str, Any] = json.loads(profile.normal_form)
    for section, value in form.items():
        if not isinstance(value, list):
            click.echo(f"{section}: {json.dumps(value)}")
            continue
        click.echo(f"{section}:{'' if value else ' none'}")
        for position, rule in enumerate(value):
            place = profile.places[f"{section}/{position}"]
            click.echo(printable(f"  {section}/{position}  {json.dumps(rule)}  # {place}"))
    click.echo(f"digest: {profile.digest}")
