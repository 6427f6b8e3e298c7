"""The published bundles, and the receipts in them that tests follow items to."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from affiant.attestation.audit.reconcile.claims import Claim
from affiant.attestation.audit.records_of_others.facts import Facts, parse_authority

VECTORS = Path(__file__).resolve().parents[4] / "attestation" / "vectors" / "receipts"
AT = "2026-11-21T12:30:00Z"


@pytest.fixture
def reconciled(tmp_path: Path) -> Callable[..., Result]:
    """``affiant reconcile`` with a record of these lines over published bundles."""
    from affiant.attestation.cli.bundle.reconcile_commands import reconcile

    def run(
        kind: str,
        lines: Sequence[object],
        *more: str,
        bundles: Sequence[str] = ("inference",),
        json_out: bool = True,
    ) -> Result:
        record = tmp_path / "record"
        texts = (line if isinstance(line, str) else json.dumps(line) for line in lines)
        record.write_text("".join(f"{text}\n" for text in texts))
        named = [part for name in bundles for part in ("--bundle", str(bundle_path(name)))]
        arguments = [*named, "--trust", str(VECTORS / "trust.json"), "--at", AT, f"--{kind}", str(record)]
        return CliRunner().invoke(reconcile, [*arguments, *(["--json"] if json_out else []), *more])

    return run


def bundle_path(name: str) -> Path:
    path = Path(name)
    return path if path.is_absolute() else VECTORS / "valid" / f"{name}.affiant.json"


def claim(
    name: str,
    at: int,
    host: str | None = "api.example",
    *,
    tunnel: bool = False,
    expected: bool = True,
    **facts: object,
) -> Claim:
    """A claim at ``at`` seconds."""
    return Claim(
        receipt=name,
        rh=f"rh-{name}",
        kind="inference",
        at=at * 1000,
        authority=None if host is None else parse_authority(host),
        facts=Facts(**facts),
        tunnel=tunnel,
        answered=True,
        expected=expected,
        undisclosed=(),
        session=None,
    )


def states(result: Result) -> Mapping[str, int]:
    return {name: count for name, count in json.loads(result.output)["items"].items() if count}
