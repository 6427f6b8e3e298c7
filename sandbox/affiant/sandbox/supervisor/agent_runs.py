"""The session's commands: any number, several at once, each under the number of the act that started it.

A command that cannot be executed is an exit code (126, 127), and one whose request is wrong is rejected: the session
goes on. A command that cannot be recorded, or whose sandbox or broker is gone, ends the session.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import asdict

from affiant.errors import AffiantError, ConfigurationError, MalformedError
from affiant.sandbox.isolation.plan.plan import Command
from affiant.sandbox.supervisor.activating import OpenSession
from affiant.sandbox.supervisor.acts import MOST_ACTS, Act, Ending
from affiant.sandbox.supervisor.command_execution import WRITES, AgentRun, RunServices
from affiant.sandbox.supervisor.launch.control import Message, refusal_members
from affiant.sandbox.supervisor.launch.environment import agent_environment
from affiant.sandbox.supervisor.launch.user_streams import MOST_CELLS, UserStreams

__all__ = ["Commands"]


class Commands:
    """Starts and signals commands.

    Args:
        random_bytes: for the trace context of each command.
    """

    def __init__(self, session: OpenSession, random_bytes: Callable[[int], bytes]) -> None:
        self._session = session
        self._random_bytes = random_bytes
        self._services = RunServices(
            session.runner,
            session.broker,
            session.records,
            session.provision.backend.value,
            ThreadPoolExecutor(WRITES * MOST_ACTS, "output"),
        )
        self._runs: dict[int, AgentRun] = {}
        self._early: dict[int, list[Callable[[AgentRun], None]]] = {}
        """Signals and sizes for commands that are not begun yet."""
        self.notices: Mapping[str, Callable[[Mapping[str, object]], None]] = {
            "signal": self.signal,
            "resize": self.resize,
        }
        """Messages about a running command, by operation; they have no answer."""

    async def run(self, act: Act) -> Ending | None:
        """Run a command to its end: events ``started`` and ``exited``."""
        early = self._early[act.number] = []
        try:
            terminal = _terminal(act.message.members.get("terminal"))
            command = await self._command(act.message.members)
            user = _streams(act.message)
        except AffiantError:
            act.message.close()
            raise
        finally:
            del self._early[act.number]
        run = AgentRun(self._services, command, user, lambda: act.tell("started"), terminal)
        self._runs[act.number] = run
        for tell in early:
            tell(run)
        try:
            result = await run.run()
        except AffiantError as error:
            await asyncio.to_thread(user.close)
            return Ending("killed", error)
        finally:
            del self._runs[act.number]
        limit, ended = result.limit, result.ended
        members = {
            "code": result.code,
            "usage": None if ended is None else asdict(ended),
            "limit": None if limit is None else refusal_members(limit),
        }
        await act.tell("exited", members)
        return None

    async def measure(self, act: Act) -> Ending | None:
        """Tell what the sandbox uses: event ``metrics``."""
        act.message.close()
        await act.tell("metrics", await self._session.runner.measure())
        return None

    def signal(self, members: Mapping[str, object]) -> None:
        """Send a signal to a command; one that has ended gets none."""
        number = members.get("number")
        if isinstance(number, int):
            self._tell(members, lambda run: run.signal(number))

    def resize(self, members: Mapping[str, object]) -> None:
        """Change the size of a command's terminal; to what is no size it is not changed."""
        with suppress(MalformedError):
            size = _terminal(members.get("terminal"))
            if size is not None:
                self._tell(members, lambda run: run.resize(*size))

    def _tell(self, members: Mapping[str, object], notice: Callable[[AgentRun], None]) -> None:
        """Pass it to the command that is named; to one that is not begun yet, once it is."""
        number = members.get("id")
        if isinstance(number, int) and number in self._runs:
            notice(self._runs[number])
        elif isinstance(number, int) and number in self._early:
            self._early[number].append(notice)

    async def _command(self, members: Mapping[str, object]) -> Command:
        argv, env, cwd = members.get("argv"), members.get("env"), members.get("cwd")
        if not isinstance(argv, list) or not isinstance(env, Mapping):
            raise _not_a_command()
        if not all(isinstance(word, str) for word in (*argv, *env.values())):
            raise _not_a_command()
        await self._refuse_secrets(env)
        random = self._random_bytes
        environment = agent_environment(
            proxy_url=self._session.proxy_url,
            placeholders={
                variable: value
                for variables in self._session.placeholders.values()
                for variable, value in variables.items()
            },
            traceparent=f"00-{random(16).hex()}-{random(8).hex()}-01",
            with_runtime=self._session.provision.runtime is not None,
            user=env,
        )
        return Command(tuple(argv), environment, cwd if isinstance(cwd, str) else "/")

    async def _refuse_secrets(self, env: Mapping[str, str]) -> None:
        """Reject a variable that holds a secret's value: the agent would have it, where it is given a placeholder.

        Raises:
            ``session.environment``: the broker knows the value, or an encoding of it.
        """
        for name, value in env.items() if self._session.placeholders else ():
            async with self._session.broker.redactor() as redactor:
                found = await redactor.feed(value.encode("utf-8", "surrogateescape"))
                rest, _ = await redactor.flush()
            if found + rest != value.encode("utf-8", "surrogateescape"):
                raise ConfigurationError(
                    "a variable holds the value of a secret",
                    where=name,
                    hint="Leave it out: the agent finds the secret's placeholder under the secret's own name",
                    code="session.environment",
                )


def _not_a_command() -> MalformedError:
    return MalformedError("not a command", expected="argv, env and cwd", where="run", code="session.control")


def _terminal(value: object) -> tuple[int, int] | None:
    """Rows and columns of a terminal.

    Raises:
        ``session.control``: not two small numbers.
    """
    match value:
        case None:
            return None
        case [int(rows), int(columns)] if 0 < rows <= MOST_CELLS and 0 < columns <= MOST_CELLS:
            return rows, columns
    raise MalformedError("not a terminal's size", expected="rows and columns", code="session.control")


def _streams(message: Message) -> UserStreams:
    """The user's own descriptors, from now on owned by the streams."""
    descriptors = message.descriptors
    if not {"stdout", "stderr"} <= set(descriptors):
        raise MalformedError("the command request lacks its streams", where="fds", code="session.control")
    return UserStreams(descriptors.get("stdin"), descriptors["stdout"], descriptors["stderr"])
