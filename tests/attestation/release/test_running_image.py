"""The digest of the running image, where no process is measured: the release manifest's, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest

from affiant.attestation.release import running_image
from affiant.attestation.release.boot import Image, ReleaseMissingError

DIGEST = "sha256:" + "ab" * 32


def digest_of(monkeypatch: pytest.MonkeyPatch, manifest: Path) -> str:
    monkeypatch.setattr(running_image, "_MANIFEST", manifest)
    return running_image.image_digest(Image.SESSION)


def test_it_is_the_manifests(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "release.json").write_text(f'{{"images": {{"session": {{"digest": "{DIGEST}"}}}}}}')
    assert digest_of(monkeypatch, tmp_path / "release.json") == DIGEST


@pytest.mark.parametrize(
    "text",
    [
        "",
        "{}",
        '{"images": []}',
        *(f'{{"images": {{"session": {{"digest": {bad}}}}}}}' for bad in ("null", '"x"')),
    ],
)
def test_a_manifest_without_a_digest_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str
) -> None:
    (tmp_path / "release.json").write_text(text)
    with pytest.raises(ReleaseMissingError, match="cannot be read|names no digest"):
        digest_of(monkeypatch, tmp_path / "release.json")


def test_no_manifest_says_so(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    with pytest.raises(ReleaseMissingError, match="no release manifest beside the code"):
        digest_of(monkeypatch, tmp_path / "release.json")
