"""What the control socket carries is derived anew, never believed."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.properties import thorough
from tests.raising import raises_code

from affiant.attestation.encoding.canonical import canonical
from affiant.sandbox.isolation.plan.errors import FrameError
from affiant.sandbox.isolation.plan.plan import (
    Access,
    Command,
    DirectoryRoot,
    FileGrant,
    HostUsr,
    Limits,
    plan_sandbox,
)
from affiant.sandbox.isolation.plan.protocol import (
    command_from_json,
    command_to_json,
    plan_from_json,
    plan_to_json,
)

PATHS = st.lists(st.sampled_from(["a", "b", "c"]), min_size=1, max_size=4).map(
    lambda parts: "/" + "/".join(parts)
)
GRANTS = st.lists(st.builds(FileGrant, PATHS, st.sampled_from(list(Access))), max_size=6)


def carried(members):
    return json.loads(canonical(members))


@thorough(200)
@given(
    grants=GRANTS,
    root=st.sampled_from([HostUsr(), DirectoryRoot("/image")]),
    runtime=st.sampled_from([None, "/r"]),
)
def test_every_plan_survives_the_socket_unchanged(grants, root, runtime):
    plan = plan_sandbox("s", grants, rootfs=root, runtime=runtime, limits=Limits(cpus=2))
    assert plan_from_json(carried(plan_to_json(plan))) == plan


def test_every_command_survives_the_socket_unchanged():
    command = Command(("a", "", "\u00e4 'x'\n"), {"A": "b=c"}, "/w")
    assert command_from_json(carried(command_to_json(command))) == command


def members(**changes):
    return {**carried(plan_to_json(plan_sandbox("s", [FileGrant("/w", Access.READ_WRITE)]))), **changes}


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        members(extra=1),
        members(session=1),
        members(files=None),
        members(files=[{"path": "/w"}]),
        members(files=[{"path": "/w", "access": "write"}]),
        members(files=[{"path": "/w", "access": "none", "source": "/etc"}]),
        members(limits={"memory_bytes": True}),
        members(rootfs=False),
        members(runtime=1),
    ],
)
def test_other_members_or_types_are_refused(value):
    with pytest.raises(FrameError):
        plan_from_json(value)


def test_a_path_of_the_machine_cannot_be_smuggled_in():
    for path in ("/etc", "/w/../etc", "/proc/1/root"):
        with raises_code("isolation.plan"):
            plan_from_json(members(files=[{"path": path, "access": "read-write"}]))


@pytest.mark.parametrize(
    "value",
    [
        {"argv": "ls", "env": {}, "cwd": "/"},
        {"argv": ["ls"], "env": [], "cwd": "/"},
        {"argv": [1], "env": {}, "cwd": "/"},
        {"argv": ["ls"], "env": {"A": 1}, "cwd": "/"},
        {"argv": ["ls"], "env": {}, "cwd": None},
        {"argv": ["ls"], "env": {}},
    ],
)
def test_a_command_of_another_shape_is_refused(value):
    with pytest.raises(FrameError):
        command_from_json(value)
