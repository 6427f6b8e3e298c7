"""The shape of the tree: rooms, floors, and what the base install needs."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("attestation", "policy", "secrets", "sandbox", "gateway")
BASE_MODULES = (
    "affiant.attestation.cli.bundle.verify_command",
    "affiant.attestation.cli.collateral.commands",
    "affiant.attestation.signatures.profiles.verification",
    "affiant.attestation.cli.quote.policy_signing_commands",
    "affiant.attestation.signatures.sigstore.verification",
    "affiant.attestation.cli.quote.commands",
    "affiant.attestation.cli.log.commands",
    "affiant.attestation.cli.log.witness_commands",
    "affiant.attestation.cli.bundle.receipts_commands",
    "affiant.attestation.audit.receipts.indexing",
    "affiant.attestation.cli.bundle.reconcile_commands",
    "affiant.attestation.audit.reconcile_report.following",
    "affiant.policy.commands",
    "affiant.gateway.bundles.bundle_commands",
    "affiant.gateway.erasure.erase_commands",
    "affiant.__main__",
)
EXTRAS = (
    "fastapi",
    "msgspec",
    "httpx",
    "hvac",
    "obstore",
    "openai",
    "pydantic",
    "uvicorn",
    "requests",
    "h11",
    "httptools",
    "opentelemetry",
    "sigstore",
    "sigstore_models",
    "rfc3161_client",
)


def sources(floor: str) -> list[Path]:
    return sorted((ROOT / floor / "affiant").rglob("*.py"))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


def test_no_stray_init_shadows_a_package_or_the_standard_library() -> None:
    for floor in FLOORS:
        assert not (ROOT / floor / "__init__.py").exists()
        assert not (ROOT / floor / "affiant" / "__init__.py").exists()


def test_the_standard_library_secrets_is_importable_from_the_root() -> None:
    code = "import secrets; assert secrets.token_bytes(4)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_lower_floor_never_imports_a_higher_one(floor: str) -> None:
    higher = tuple(f"affiant.{name}" for name in FLOORS[FLOORS.index(floor) + 1 :])
    for path in sources(floor):
        for name in imported(path):
            assert not name.startswith(higher), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("floor", FLOORS)
def test_every_component_is_typed(floor: str) -> None:
    assert (ROOT / floor / "affiant" / floor / "py.typed").exists()


@pytest.mark.parametrize("module", BASE_MODULES)
def test_the_base_install_needs_no_extra(module: str) -> None:
    blocked = ", ".join(repr(name) for name in EXTRAS)
    code = (
        "import sys\n"
        f"for name in ({blocked}): sys.modules[name] = None\n"
        f"import importlib; importlib.import_module({module!r})\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=False, capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 0, done.stderr


def test_the_verifier_talks_to_nothing() -> None:
    """No module of ours that `affiant verify` or `affiant quote` loads imports a way out of the process."""
    code = (
        "import importlib, json, pkgutil, sys\n"
        "importlib.import_module('affiant.attestation.cli.bundle.verify_command')\n"
        "import affiant.attestation.quotes as quotes\n"
        "for found in pkgutil.iter_modules(quotes.__path__, quotes.__name__ + '.'):\n"
        "    importlib.import_module(found.name)\n"
        "print(json.dumps([m.__file__ for n, m in sys.modules.items() if n.startswith('affiant.') and m.__file__]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = [Path(name) for name in json.loads(done.stdout)]
    assert len(loaded) > 20
    for path in loaded:
        out = imported(path) & {"socket", "ssl", "asyncio", "http.client", "urllib.request", "subprocess"}
        assert not out, f"{path} imports {out}"


def ambient(path: Path) -> set[str]:
    """Calls of the clock, the environment and the random generator in one file."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found & {"datetime.now", "datetime.utcnow", "time.time", "os.environ", "os.getenv", "os.urandom"}


def test_the_clock_and_the_environment_are_read_only_at_the_rim() -> None:
    """Sans-IO: the core of attestation and policy takes time, randomness and environment as arguments."""
    for floor in ("attestation", "policy"):
        for path in sources(floor):
            if path.name not in RIM and "simulated" not in path.parts:
                assert not ambient(path), f"{path.relative_to(ROOT)} reads {ambient(path)}"


RIM = {
    "__main__.py",
    "commands.py",
    "instant_option.py",
    "listing_command.py",
    "options.py",
    "release.py",
    "sigstore_options.py",
    "take_command.py",
    "verify_command.py",
}


def test_every_folder_of_the_tree_has_a_readme() -> None:
    for folder in [*FLOORS, "infra", "tests", "benchmarks", "examples", "docs", "scripts"]:
        assert (ROOT / folder / "README.md").exists(), folder
