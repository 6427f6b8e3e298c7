"""What these tests share: whole sessions as a user starts them, in a state folder of their own."""

from __future__ import annotations

from tests.sandbox.conftest import isolation, machine, release, served, warm

__all__ = ["isolation", "machine", "release", "served", "warm"]
