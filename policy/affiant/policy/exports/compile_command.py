"""``affiant policy compile`` writes a profile as configuration of another tool, and reports what is lost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from affiant.command_line import DISK_TROUBLE, EXIT_REFUSED, print_json, printable
from affiant.files import write_whole
from affiant.policy.editor.completion import complete_agents
from affiant.policy.exports.cedar import CEDAR
from affiant.policy.exports.cilium import CILIUM
from affiant.policy.exports.claude_code import CLAUDE_CODE
from affiant.policy.exports.loss_report import export_document, loss_lines
from affiant.policy.exports.model import Export, Target
from affiant.policy.exports.srt import SRT
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.rendering.terminal import floor_option

__all__ = ["TARGETS", "compile_profile"]

TARGETS: Final[Mapping[str, Target]] = {target.name: target for target in (CEDAR, CILIUM, CLAUDE_CODE, SRT)}
_EVERY: Final = "all"


@click.command(name="compile")
@click.argument("file", type=click.Path(path_type=Path))
@click.argument("agent", required=False, shell_complete=complete_agents("file"))
@click.option(
    "--target",
    "target_name",
    type=click.Choice(sorted(TARGETS)),
    required=True,
    help="Tool to write for.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    help="The file to write, or the folder for several files. Existing files are never replaced.",
)
@click.option(
    "--allow-wider",
    "wider",
    multiple=True,
    metavar="KIND",
    help="Accept rules that the target can only express more loosely in this way; 'all': in any way. Repeatable.",
)
@click.option(
    "--fail-on-loss", is_flag=True, help="Exit with 1 if the target cannot express all of the profile."
)
@click.option(
    "--json", "as_json", is_flag=True, help="Print one JSON document that includes the configuration."
)
@floor_option
def compile_profile(
    file: Path,
    agent: str | None,
    *,
    floor: Path | None,
    target_name: str,
    output: Path | None,
    wider: Sequence[str],
    fail_on_loss: bool,
    as_json: bool,
) -> None:
    """Write AGENT's profile of FILE, or every agent's, as the configuration of another tool.

    A report lists, rule by rule, what the tool cannot express. "Narrower" is safe: the rule is left out or stricter.
    "Wider" is not enforced by the tool: something else must enforce it. A rule that would become looser is left out
    unless --allow-wider names the kind in brackets.

    The document goes to standard output and the report to standard error; with -o, the report to standard output.

    Exit codes: 0 exported; 1 the file is rejected, or something is lost and --fail-on-loss; 2 the command line
    is wrong.

    \b
    Examples:
      affiant policy compile profiles.yaml code_implementer --target srt > settings.json
      affiant policy compile profiles.yaml deployment_agent --target cedar -o policies/
      affiant policy compile profiles.yaml crawler --target cilium --allow-wider dns --allow-wider protocol
      affiant policy compile profiles.yaml --target claude-code -o settings/ --fail-on-loss
    """
    target = TARGETS[target_name]
    accepted = _accepted(target, wider)
    profiles = read_profiles(file, floor=floor)
    chosen = [profiles.profile(agent)] if agent is not None else list(profiles.profiles.values())
    exports = [target.export(profile, accepted) for profile in chosen]
    if output is not None:
        _write(_places(exports, output))
    if as_json:
        print_json(export_document(exports))
    else:
        _show(exports, printed=output is None)
    if fail_on_loss and any(export.losses for export in exports):
        raise click.exceptions.Exit(EXIT_REFUSED)


def _accepted(target: Target, wider: Sequence[str]) -> frozenset[str]:
    unknown = sorted(set(wider) - target.wider.keys() - {_EVERY})
    if unknown:
        known = "".join(f"\n  {kind}: {text}" for kind, text in sorted(target.wider.items()))
        raise click.UsageError(
            f"{printable(unknown[0])} is not a kind of loss of {target.name}. Known kinds:{known or ' none'}"
        )
    return frozenset(target.wider if _EVERY in wider else wider)


def _show(exports: Sequence[Export], *, printed: bool) -> None:
    documents = [document for export in exports for document in export.documents]
    if printed and len(documents) > 1:
        raise click.UsageError(f"there are {len(documents)} documents: name a folder with -o, or use --json")
    for line in loss_lines(exports):
        click.echo(line, err=printed)
    if printed:
        for document in documents:
            click.echo(document.text, nl=False)
    if not exports:
        click.echo("The file has no profiles: nothing is exported.", err=printed)


def _places(exports: Sequence[Export], output: Path) -> Mapping[Path, str]:
    """Where each document goes: ``output`` itself for one that is not to lie in a folder."""
    documents = [file for export in exports for file in export.files]
    if len(documents) == 1 and not output.is_dir():
        return {output: documents[0][1]}
    return {output / name: text for name, text in documents}


def _write(places: Mapping[Path, str]) -> None:
    """All of them or, where one is there already, none."""
    for place in places:
        if place.exists() or place.is_symlink():
            raise click.UsageError(
                f"{_shown(place)} exists already: remove it, or choose another place with -o"
            )
    for place, text in places.items():
        try:
            place.parent.mkdir(exist_ok=True)
            write_whole(place, text.encode(), replace=False)
        except OSError as error:
            kind = click.ClickException if error.errno in DISK_TROUBLE else click.UsageError
            raise kind(f"{_shown(place)} cannot be written: {error.strerror}") from error


def _shown(path: Path) -> str:
    return printable(str(path)).replace("\n", "\\n")
