"""The gateway's own witness comes to be once, whole, with whatever needs it first, and never a second time."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.raising import raises_code

from affiant.attestation.log.witness.embedded import OwnWitness, own_witness
from affiant.attestation.log.witness.keys import read_key_file
from affiant.attestation.log.witness.state import open_state
from affiant.attestation.tlog.quorum import OWN_WITNESS_URL, SELF, parse_witness_policy


def made(home: Path) -> OwnWitness:
    return own_witness(home, random_bytes=os.urandom)


def never(count: int) -> bytes:
    raise AssertionError(f"{count} random bytes drawn")


def test_its_policy_names_itself_alone_and_the_key_that_it_has(tmp_path: Path) -> None:
    own = made(tmp_path / "home")
    policy = parse_witness_policy(own.policy.encode())
    assert policy.quorum == SELF and not policy.independent([SELF])
    (witness,) = policy.witnesses.values()
    keys = read_key_file(own.key)
    assert (witness.name, witness.url, (witness.key,)) == (SELF, OWN_WITNESS_URL, keys.verifiers())
    with open_state(own.state, keys.identity) as state:
        assert state.all() == ()


def test_a_second_time_it_is_the_same_and_nothing_is_drawn(tmp_path: Path) -> None:
    first = made(tmp_path)
    assert own_witness(tmp_path, random_bytes=never) == first


def test_nobody_else_can_enter_its_folder(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        own = made(tmp_path / "home")
    finally:
        os.umask(before)
    assert [stat.S_IMODE(each.stat().st_mode) for each in (tmp_path / "home", own.folder)] == [0o700] * 2
    assert [stat.S_IMODE(each.stat().st_mode) for each in (own.key, own.state)] == [0o600] * 2


def test_those_who_need_it_at_once_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        found = set(pool.map(lambda _: made(tmp_path).policy, range(16)))
    assert len(found) == 1
    assert [each.name for each in tmp_path.iterdir()] == ["witness"]


def test_one_that_could_not_be_finished_is_not_there(tmp_path: Path) -> None:
    def dies(_: int) -> bytes:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        own_witness(tmp_path, random_bytes=dies)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["key", "state.sqlite", "witness.policy"])
def test_one_that_lost_a_part_is_retired_not_made_anew(tmp_path: Path, name: str) -> None:
    own = made(tmp_path)
    (own.folder / name).unlink()
    with raises_code("witness.state_lost", match=r"missing.*retired") as refused:
        own_witness(tmp_path, random_bytes=never)
    assert refused.value.where == str(own.folder / name)


def test_a_successor_is_another_witness(tmp_path: Path) -> None:
    first = made(tmp_path)
    first.folder.rename(tmp_path / "witness.retired")
    second = made(tmp_path)
    names = {parse_witness_policy(each.policy.encode()).witnesses[SELF].key.name for each in (first, second)}
    assert len(names) == 2


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace(OWN_WITNESS_URL, "http://elsewhere.example"),
        lambda text: text.replace(" self ", " other "),
        lambda text: text + "group more any self\n",
        lambda text: text.replace("+", "-"),
        lambda text: "",
    ],
)
def test_a_policy_that_was_not_written_here_is_refused(tmp_path: Path, change: Callable[[str], str]) -> None:
    own = made(tmp_path)
    (own.folder / "witness.policy").write_text(change(own.policy))
    with raises_code("witness.settings", match="not the policy"):
        made(tmp_path)


def test_a_link_in_place_of_the_policy_is_not_followed(tmp_path: Path) -> None:
    own = made(tmp_path)
    elsewhere = tmp_path / "elsewhere"
    (own.folder / "witness.policy").rename(elsewhere)
    (own.folder / "witness.policy").symlink_to(elsewhere)
    with raises_code("witness.settings", match="cannot be used"):
        made(tmp_path)


def test_a_file_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "witness").write_text("")
    with raises_code("witness.settings", "witness.state_lost"):
        made(tmp_path)
