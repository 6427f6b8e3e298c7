"""A session that a host holds starts sessions: they are listed while they run, and end with it."""

from __future__ import annotations

import json
import textwrap
from collections.abc import Iterator

import pytest
from tests.sandbox.conftest import Machine, made_machine
from tests.sandbox.detached.test_host import affiant, until
from tests.sandbox.session.test_session_children import CALLS, write_profiles

pytestmark = pytest.mark.slow
START = CALLS + textwrap.dedent("""
    one = call("session_create", agent="helper")["session"]
    call("session_write_file", session=one, path="/workspace/a", content="x")
    show(one)
""")


@pytest.fixture
def place(isolation: str, release: None) -> Iterator[Machine]:
    with made_machine(isolation) as made:
        made.keep_services()
        yield made


def states(machine: Machine) -> dict[str, tuple[str, str]]:
    sessions = json.loads(affiant(machine, "ls", "--json").stdout)["sessions"]
    return {each["session"]: (each["agent"], each["state"]) for each in sessions}


def lead(machine: Machine) -> None:
    given = ("--profile", str(write_profiles(machine)), "--agent", "lead", "--ttl", "300")
    done = affiant(machine, "create", "--name", "lead", *given, "--min-isolation", machine.isolation)
    assert done.returncode == 0, done.stderr


def started(machine: Machine) -> str:
    done = affiant(machine, "exec", "lead", "python3", "-c", START)
    assert done.returncode == 0, done.stderr
    return str(json.loads(done.stdout))


def test_children_live_from_one_command_to_the_next_and_end_with_the_session(place: Machine) -> None:
    lead(place)
    child = started(place)
    assert states(place)[child] == ("helper", "running")
    again = CALLS + f"show(call('session_read_file', session={child!r}, path='/workspace/a'))"
    done = affiant(place, "exec", "lead", "python3", "-c", again)
    assert json.loads(done.stdout) == {"content": "x", "encoding": "utf-8"}
    refused = affiant(place, "exec", child, "true")
    assert refused.returncode == 125 and b"session.not_open" in refused.stderr
    assert affiant(place, "stop", "lead").returncode == 0
    assert {state for _, state in states(place).values()} == {"closed"}
    bundle = place.home / "sessions" / child / "bundle.affiant.json"
    assert "HOLDS" in place.verdict(bundle)


def test_a_restriction_of_the_parent_closes_the_children_that_are_wider(place: Machine) -> None:
    lead(place)
    child = started(place)
    narrow = place.folder / "narrow.yaml"
    narrow.write_text(
        write_profiles(place).read_text().replace("{agent: helper, at_most: 3}, wide, middle", "wide")
    )
    done = affiant(place, "narrow", "lead", str(narrow))
    assert done.returncode == 0, done.stderr
    assert until(lambda: states(place)[child] == ("helper", "closed"))
    code = CALLS + "show(call('session_create', agent='helper')['error']['data']['reason'])\n"
    code += f"show(call('session_run', session={child!r}, command=['true'])['error']['data']['reason'])"
    done = affiant(place, "exec", "lead", "python3", "-c", code)
    assert [json.loads(line) for line in done.stdout.splitlines()] == [
        "start_not_listed",
        "session.child_unknown",
    ]
    assert affiant(place, "stop", "lead").returncode == 0
