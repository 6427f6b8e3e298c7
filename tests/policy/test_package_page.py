"""The package's README: its Python is run, and it names every wing in the order of imports."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "policy" / "affiant" / "policy"
PAGE = (ROOT / "policy" / "README.md").read_text()


def test_the_python_of_the_page_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ROOT)
    (code,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    exec(compile(code, "README.md", "exec"), {})


def test_the_page_names_every_wing_once() -> None:
    named = re.findall(r"\[(\w+)\]\(affiant/policy/\1/README\.md\)", PAGE)
    wings = {path.parent.name for path in PACKAGE.glob("*/__init__.py")}
    assert len(named) == len(set(named))
    assert set(named) == wings
    assert all((PACKAGE / wing / "README.md").is_file() for wing in wings)


@pytest.mark.parametrize("path", sorted(PACKAGE.glob("*/README.md")), ids=lambda path: path.parent.name)
def test_what_a_wings_page_names_is_there(path: Path) -> None:
    text = path.read_text()
    for name in re.findall(r"`(\w+\.py)`", text):
        assert list(path.parent.glob(name)), name
    for module, names in re.findall(r"`(?:\w+/)?(\w+)\.py`: ((?:`\w+`(?:, )?)+)", text):
        source = next(
            PACKAGE.glob(f"*/{module}.py") if module == "simulation" else path.parent.glob(f"{module}.py")
        )
        for name in re.findall(r"`(\w+)`", names):
            assert re.search(rf"^(def|class) {name}\b", source.read_text(), re.MULTILINE), (module, name)
    assert len(text.splitlines()) <= 25
