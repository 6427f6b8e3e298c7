"""``affiant session narrow``: take permissions from an agent that runs.

What changes is compared and shown here first, so that the user sees it in time; what counts is decided by the session's
supervisor and by its gateway, each for itself.

Exit codes: 0 restricted, or nothing to change, or --dry-run; 1 error; 2 the command line is wrong.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import click

from affiant.command_line import print_json, printable
from affiant.errors import AffiantError, MalformedError, StateError, UnreachableError
from affiant.policy.decision.compiled import CompiledPolicy, parse_normal_form
from affiant.policy.diff.differences import Difference
from affiant.policy.diff.report import difference_lines
from affiant.policy.diff.restriction import (
    compare_restriction,
    require_enforced,
    require_restriction,
    restriction_digest,
    restriction_document,
)
from affiant.policy.editor.completion import complete_agents
from affiant.policy.loading.policy_file import policy_owners, read_policy_file
from affiant.policy.loading.profile_set import ProfileSet
from affiant.policy.rendering.terminal import floor_option
from affiant.sandbox.cli.session_options import home_option, json_option, session_argument
from affiant.sandbox.processes.home import Home, open_home
from affiant.sandbox.processes.session_note import SessionState
from affiant.sandbox.session.restriction_socket import InForce, connected, restriction_members
from affiant.sandbox.session.session_plan import read_profile_signature
from affiant.sandbox.session_state.session_folder import RESTRICTION_SOCKET
from affiant.sandbox.session_state.session_listing import find_session
from affiant.sandbox.supervisor.launch.control import ControlChannel, sent_error

__all__ = ["narrow"]

_ANSWERS_WITHIN_S: Final = 90.0
"""Longer than a restriction may take (``RestrictionTimes``)."""
_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command()
@home_option
@session_argument
@click.argument("file", type=_FILE)
@click.option(
    "--agent",
    help="Which profile of FILE; default: the session's agent.",
    shell_complete=complete_agents("file"),
)
@click.option(
    "--signature",
    type=_FILE,
    help="A signature over FILE, for a gateway that demands one. Default: FILE.sig.json, if it is there.",
)
@floor_option
@click.option("--dry-run", is_flag=True, help="Show what would change, and change nothing.")
@json_option
def narrow(
    *,
    home: Path,
    name: str,
    file: Path,
    agent: str | None,
    floor: Path | None,
    signature: Path | None,
    dry_run: bool,
    as_json: bool,
) -> None:
    """Replace the profile of a SESSION that runs by the narrower one in FILE.

    What the agent may not do any more is shown first. A profile that is wider in anything is rejected, and nothing is
    sent; so is one with other files or another machine: a sandbox keeps what it was made with. Requests of the agent
    wait meanwhile; those under way get some seconds, and are then cut. The change is measured and appraised by the
    gateway, and it is in the receipts. There is no way back: a wider profile needs a new session. A restriction that
    fails once it has begun ends the session.

    \b
    Examples:
      affiant session narrow 0o2m0yYbVQkLhX4dJmQ3Ng narrower.yaml --dry-run
      affiant session narrow 0o2m0yYbVQkLhX4dJmQ3Ng narrower.yaml
      affiant session narrow 0o2m0yYbVQkLhX4dJmQ3Ng narrower.yaml --agent code_implementer --json

    \b
    Exit codes: 0 restricted or nothing to change, 1 error, 2 usage.
    """
    opened = open_home(home)
    name = _running(opened, name)
    profiles = read_policy_file(file, owners=policy_owners(os.geteuid(), os.environ), floor=floor).profiles
    signed = read_profile_signature(signature, file, profiles)
    place = opened.session(name) / RESTRICTION_SOCKET
    change = _compared(asyncio.run(_in_force(place)), profiles, agent)
    told = {"session": name, **change.to_json()}
    if not as_json:
        for line in difference_lines(change.differences):
            click.echo(line)
    elif change.refused or dry_run or not change.differences:
        print_json(told)
    change.require()
    if not change.differences:
        _say("it allows the same as the profile in force: nothing was changed", quiet=as_json)
    elif dry_run:
        _say("nothing was changed (--dry-run)", quiet=as_json)
    else:
        members = restriction_members(change.new.normal_form, profiles.source_digest, signed)
        done = asyncio.run(_restricted(place, members))
        if as_json:
            print_json({**told, **done})
        _say(
            printable(f"restricted: change {done['epoch']} of this session, profile {done['digest']}"),
            quiet=as_json,
        )


@dataclass(frozen=True, slots=True)
class _Change:
    """The profile in force, the one that is to follow it, and what differs."""

    in_force: InForce
    old: CompiledPolicy
    new: CompiledPolicy
    differences: tuple[Difference, ...]

    def require(self) -> None:
        """Return if it is narrower, and can be enforced.

        Raises:
            NotARestriction, ``policy.narrow_unenforced``: it is not.
        """
        require_restriction(self.differences)
        require_enforced(self.old, self.new, self.differences)

    @property
    def refused(self) -> bool:
        try:
            self.require()
        except AffiantError:
            return True
        return False

    def to_json(self) -> Mapping[str, object]:
        """What is known before anything was sent."""
        document = restriction_document(self.differences, old=self.old.digest, new=self.new.digest)
        return {
            "changed": False,
            "difference": document,
            "dif": restriction_digest(document),
            "digest": self.old.digest,
            "epoch": self.in_force.epoch,
        }


def _compared(in_force: InForce, profiles: ProfileSet, agent: str | None) -> _Change:
    old = parse_normal_form(in_force.policy)
    name = agent or in_force.agent
    new = profiles.profile(name).compiled
    return _Change(in_force, old, new, compare_restriction(old, new, agent=name))


def _running(home: Home, name: str) -> str:
    """The id of a session that runs."""
    entry = find_session(home, name)
    if entry.note.state is not SessionState.RUNNING:
        raise StateError(
            "the session does not run",
            expected="running",
            found=entry.note.state.value,
            where=name,
            code="session.not_open",
        )
    return entry.note.session


async def _in_force(place: Path) -> InForce:
    async with connected(place) as channel:
        return InForce.from_json(await _asked(channel, {"op": "show"}))


async def _restricted(place: Path, members: Mapping[str, object]) -> Mapping[str, object]:
    async with connected(place) as channel:
        answer = (await _asked(channel, {"op": "narrow", **members})).get("narrowed")
    if not isinstance(answer, Mapping):
        raise MalformedError(
            "not an answer to a request to restrict the profile", where="narrow", code="session.control"
        )
    return {name: answer.get(name) for name in ("changed", "epoch", "digest")}


async def _asked(channel: ControlChannel, request: Mapping[str, object]) -> Mapping[str, object]:
    """The answer to one request.

    Raises:
        StateError: the session's error, under its own code. ``session.not_open``: it has ended.
        ``service.silent``: there is none; what was asked for may still be done.
    """
    try:
        async with asyncio.timeout(_ANSWERS_WITHIN_S):
            await channel.send(request)
            message = await channel.receive()
    except TimeoutError as error:
        raise UnreachableError(
            "the session does not answer, so it is not known whether its profile will be restricted",
            hint="Is its launcher stopped (Ctrl-Z)? affiant session narrow --dry-run shows what is in force",
            code="service.silent",
        ) from error
    except OSError:
        message = None
    if message is None:
        raise StateError(
            "the session has ended meanwhile", expected="one that is open", code="session.not_open"
        )
    message.close()
    refused = message.members.get("refused")
    if isinstance(refused, Mapping):
        raise sent_error(refused)
    return message.members


def _say(text: str, *, quiet: bool) -> None:
    if not quiet:
        click.echo(text)
