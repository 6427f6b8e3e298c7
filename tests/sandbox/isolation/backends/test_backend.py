"""The choice of isolation: the strongest at or above the floor, or a refusal that helps."""

import os

import pytest
from tests.raising import raises_code

from affiant.sandbox.isolation.backends.backend import Availability, choose, file_owner, probe
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass

GVISOR = Availability(BackendName.GVISOR, "runsc 2024", ())
BWRAP = Availability(BackendName.BUBBLEWRAP, "bwrap", ())
NO_GVISOR = Availability(BackendName.GVISOR, "", ("runsc is not installed",))
NO_BWRAP = Availability(BackendName.BUBBLEWRAP, "", ("Landlock is too old or off",))


def found(*availabilities):
    return {each.backend: each for each in availabilities}


def test_the_strongest_is_chosen():
    for floor in IsolationClass:
        assert choose(floor, found(BWRAP, GVISOR)).backend is BackendName.GVISOR


def test_bubblewrap_is_chosen_only_when_the_floor_allows_it():
    assert choose(IsolationClass.NAMESPACE, found(NO_GVISOR, BWRAP)).backend is BackendName.BUBBLEWRAP
    with raises_code("isolation.unavailable") as refused:
        choose(IsolationClass.USERSPACE_KERNEL, found(NO_GVISOR, BWRAP))
    assert refused.value.code == "isolation.unavailable"
    assert "--min-isolation namespace" in str(refused.value)
    assert "runsc is not installed" in str(refused.value)


def test_without_the_fallback_it_is_not_recommended():
    with raises_code("isolation.unavailable") as refused:
        choose(IsolationClass.USERSPACE_KERNEL, found(NO_GVISOR, NO_BWRAP))
    assert "--min-isolation" not in str(refused.value)


@pytest.mark.parametrize("nothing", [{}, found(NO_GVISOR, NO_BWRAP)])
def test_nothing_usable_is_a_refusal_at_every_floor(nothing):
    for floor in IsolationClass:
        with raises_code("isolation.unavailable"):
            choose(floor, nothing)


def test_there_is_no_class_without_isolation():
    assert [each.value for each in IsolationClass] == ["namespace", "userspace-kernel"]
    assert [each.value for each in BackendName] == ["gvisor", "bwrap-landlock"]


def test_this_machine_is_described_with_reasons_where_it_cannot():
    for name, availability in probe().items():
        assert availability.backend is name
        assert availability.usable == (availability.reasons == ())
        assert availability.usable <= bool(availability.release)


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="another user's files need root")
def test_sessions_have_users_of_their_own_under_bubblewrap():
    first, second = (file_owner(BackendName.BUBBLEWRAP, name) for name in ("one", "two"))
    assert first != second
    assert file_owner(BackendName.BUBBLEWRAP, "one") == first
    assert all(0x70000000 <= owner.uid < 0x80000000 for owner in (first, second))
