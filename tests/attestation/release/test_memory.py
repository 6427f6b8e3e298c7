"""The memory of a simulated TD: measured and compiled from the same bytes, kept only as it was made."""

from __future__ import annotations

import pytest

from affiant.attestation.release.boot import Image
from affiant.attestation.release.measured_files import InstalledFileError
from affiant.attestation.release.memory import launch_image

CONTENT = {"affiant/a.py": b"SAYS = 1"}


class Kept:
    """A cache in memory, which counts what is written."""

    def __init__(self) -> None:
        self.kept: dict[Image, bytes] = {}
        self.written = 0

    def read(self, image: Image) -> bytes | None:
        return self.kept.get(image)

    def write(self, image: Image, data: bytes) -> None:
        self.kept[image] = data
        self.written += 1


def test_the_same_files_are_compiled_once_and_other_files_again() -> None:
    kept = Kept()
    first = launch_image(Image.SESSION, CONTENT, (kept.read, kept.write))
    assert launch_image(Image.SESSION, CONTENT, (kept.read, kept.write)) == first
    assert kept.written == 1
    other = launch_image(Image.SESSION, {"affiant/a.py": b"SAYS = 2"}, (kept.read, kept.write))
    assert other.mrtd != first.mrtd
    assert other.memory != first.memory
    assert kept.written == 2


@pytest.mark.parametrize("damage", [lambda data: data[:-1], lambda data: data[:-1] + b"?", lambda _: b""])
def test_damaged_memory_is_made_again(damage: object) -> None:
    kept = Kept()
    first = launch_image(Image.SESSION, CONTENT, (kept.read, kept.write))
    kept.kept[Image.SESSION] = damage(kept.kept[Image.SESSION])  # type: ignore[operator]
    assert launch_image(Image.SESSION, CONTENT, (kept.read, kept.write)) == first
    assert kept.written == 2


def test_a_file_that_does_not_compile_launches_nothing() -> None:
    with pytest.raises(InstalledFileError, match="does not compile"):
        launch_image(Image.SESSION, {"affiant/a.py": b"def"})
