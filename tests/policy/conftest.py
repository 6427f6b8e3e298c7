"""What the tests of this folder share: one profile from a few lines."""

from collections.abc import Callable
from pathlib import Path

import pytest

from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile

SEED = Path(__file__).parents[2] / "policy" / "profiles" / "seed-profiles.yaml"


@pytest.fixture(scope="session")
def seed() -> bytes:
    return SEED.read_bytes()


@pytest.fixture(scope="session")
def seed_path() -> Path:
    return SEED


@pytest.fixture(scope="session")
def profile_of() -> Callable[..., Profile]:
    """The one profile whose sections are the given text, in flow style."""

    def make(sections: str, floor: bytes | None = None) -> Profile:
        data = f"agent_configs: {{dev: {{{sections}}}}}".encode()
        return load_profiles(data, floor=floor).profile("dev")

    return make
