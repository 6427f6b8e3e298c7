"""``affiant policy rule`` shows the line of a rule that a receipt, a denial or a decision log names by its id.

The enforcer of a profile has its normal form, not the file: it records ``egress/3`` of a
digest. This command goes back from there to the line.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

from affiant.command_line import print_json, printable
from affiant.errors import ConfigurationError
from affiant.policy.canonical.errors import excerpt
from affiant.policy.editor.completion import complete_agents, complete_rules
from affiant.policy.editor.rule_text import texts_by_id
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.loading.profile_set import Profile, ProfileSet
from affiant.policy.rendering.terminal import floor_option

__all__ = ["rule_command"]


@dataclass(frozen=True, slots=True)
class _Found:
    """A rule of an agent's profile: where the file says it, and what it says, as a profile would."""

    agent: str
    id: str
    where: str
    text: str


@click.command("rule")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("ids", metavar="ID...", nargs=-1, required=True, shell_complete=complete_rules)
@click.option(
    "--agent",
    help="Agent whose rules to show. Not needed if FILE has one profile.",
    shell_complete=complete_agents("file"),
)
@click.option(
    "--digest", help="Policy digest from the record: sha384:<96 hex>. A changed file is then an error."
)
@click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")
@floor_option
def rule_command(
    file: Path,
    ids: tuple[str, ...],
    agent: str | None,
    digest: str | None,
    *,
    floor: Path | None,
    as_json: bool,
) -> None:
    """Show the lines of FILE with the rules that receipts, denials and decision logs name by ID.

    IDs belong to one digest. Give --digest to get an error instead of wrong lines if the file has changed since.

    Exit codes: 0 shown; 1 the file is rejected or has no such profile, or the profile has no such rule; 2 the
    command line is wrong.

    \b
    Examples:
      affiant policy rule profiles.yaml tools/0 --agent code_implementer
      affiant policy rule profiles.yaml egress/0 limits/tokens --digest sha384:5a0c...
    """
    chosen = _chosen(read_profiles(file, floor=floor), agent, digest)
    found = [_find(profile, each) for profile in chosen for each in ids]
    if as_json:
        print_json({"policy_digest": chosen[0].digest, "rules": [asdict(each) for each in found]})
        return
    for each in found:
        click.echo(printable(f"{each.where}  {each.agent}  {each.id}: {each.text}"))
    click.echo(f"policy {chosen[0].digest}")


def _chosen(profiles: ProfileSet, agent: str | None, digest: str | None) -> Sequence[Profile]:
    """The profiles that are meant: all have one digest."""
    if agent is not None:
        profile = profiles.profile(agent)
        if digest not in (None, profile.digest):
            raise ConfigurationError(
                "the agent's profile has another digest",
                code="policy.unknown_digest",
                expected=excerpt(str(digest)),
                found=profile.digest,
                hint="Take the file as it was when the record was made",
            )
        return [profile]
    if digest is not None:
        chosen = [profile for profile in profiles.profiles.values() if profile.digest == digest]
        if not chosen:
            raise ConfigurationError(
                "no profile of the file has this digest",
                code="policy.unknown_digest",
                expected=excerpt(digest),
                hint="It may have been changed since: take the file as it was when the record was made",
            )
        return chosen
    if len(profiles.profiles) != 1:
        raise click.UsageError(f"{len(profiles.profiles)} profiles are in the file: give --agent or --digest")
    return list(profiles.profiles.values())


def _find(profile: Profile, rule: str) -> _Found:
    if rule not in profile.places:
        raise ConfigurationError(
            f"the profile of {profile.name} has no such rule",
            code="policy.unknown_rule",
            expected="an id such as tools/0, egress/12 or limits/tokens",
            found=excerpt(rule),
            hint="'affiant policy show FILE AGENT' lists them all",
        )
    return _Found(profile.name, rule, str(profile.places[rule]), texts_by_id(profile.policy)(rule))
