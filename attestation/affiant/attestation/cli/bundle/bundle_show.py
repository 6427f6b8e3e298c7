"""``affiant bundle show``: what a bundle holds, of either form. Nothing is verified."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

import click

from affiant.attestation.bundle.bundle import MAX_BUNDLE, parse_bundle
from affiant.attestation.bundle.period.archive_reader import PeriodBundle, is_archive
from affiant.attestation.bundle.period.layout import OBJECT_FOLDERS
from affiant.attestation.records.receipt import parse_receipt
from affiant.document_output import DocumentCommand, Output
from affiant.errors import AffiantError

__all__ = ["show"]

_Pair = tuple[str, str | None]
"""The model that was asked for, and the one that the answer names."""

_MODELS: Final = 32
"""Pairs of models that are shown, the most frequent first."""


@click.command(cls=DocumentCommand)
@click.argument("file", type=click.Path(exists=True, dir_okay=False, readable=True, path_type=Path))
def show(*, file: Path) -> Output:
    """Say what FILE holds, a single bundle or a period bundle. What it says of itself is not verified.

    \b
    Example:
      affiant bundle show november.affiant.zip
    """
    with file.open("rb") as opened:
        archive = is_archive(opened.read(4))
    if not archive and file.stat().st_size > MAX_BUNDLE:
        raise click.UsageError(f"{file} is larger than a single bundle may be ({MAX_BUNDLE >> 20} MiB)")
    return Output(_of_period(file) if archive else _of_single(file))


def _of_single(file: Path) -> Mapping[str, object]:
    bundle = parse_bundle(file.read_bytes())
    return {
        "form": "single",
        "bytes": file.stat().st_size,
        "receipts": len(bundle.receipts),
        "proofs": len(bundle.proofs),
        "disclosed": sum(not text.endswith("~") or text.count("~") > 1 for text in bundle.receipts),
        "models": _shown(Counter(pair for text in bundle.receipts for pair in _pair(text))),
        "objects": {folder: len(getattr(bundle, folder)) for folder in (*OBJECT_FOLDERS, "checkpoints")},
    }


def _of_period(file: Path) -> Mapping[str, object]:
    with PeriodBundle(file) as bundle:
        receipts = disclosed = 0
        models: Counter[_Pair] = Counter()
        for text in bundle.receipts():
            receipts += 1
            disclosed += text.count("~") > 1
            models.update(_pair(text))
        asked = {name: value for name, value in bundle.manifest.range.to_json().items() if value is not None}
        objects = {folder: len(bundle.objects(folder)) for folder in OBJECT_FOLDERS}
        return {
            "form": "period",
            "bytes": file.stat().st_size,
            "exporter": bundle.manifest.exporter,
            "range": asked,
            "receipts": receipts,
            "disclosed": disclosed,
            "models": _shown(models),
            "files": len(bundle.archive.members),
            "objects": {
                **objects,
                "checkpoints": len(bundle.checkpoint_sizes),
                "anchors": len(bundle.anchors),
            },
            "unknown": len(bundle.unknown),
            "absent": len(bundle.absent),
        }


def _pair(text: str) -> Sequence[_Pair]:
    """Of a request to a model, as its receipt says: the model asked for, and the one that the answer names."""
    try:
        payload = json.loads(parse_receipt(text).split.payload)
    except (AffiantError, ValueError, RecursionError):
        return ()
    model = payload.get("mdl") if isinstance(payload, dict) and payload.get("kind") == "inference" else None
    if not isinstance(model, dict):
        return ()
    asked, answered = model.get("id"), model.get("ans")
    return [(str(asked), answered if isinstance(answered, str) else None)]


def _shown(models: Counter[_Pair]) -> Sequence[Mapping[str, object]]:
    return [
        {"asked": asked, "answered": answered, "requests": count}
        for (asked, answered), count in models.most_common(_MODELS)
    ]
