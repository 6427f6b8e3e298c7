"""Writes the second verifier's words (`lib/words.mjs`) from those of the first (`verdict/words.json`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).resolve().parents[1]
SOURCE: Final = ROOT / "attestation/affiant/attestation/verdict/words.json"
MODULE: Final = ROOT / "attestation/verifier-js/lib/words.mjs"
_HEAD: Final = (
    "// What a verdict calls records, uses, ends and checks; written by scripts/verifier_words.py.\n"
)
_WIDTH: Final = 112


def module() -> str:
    """The module's text."""
    lines = [_HEAD, "export const WORDS = Object.freeze({"]
    for part, entries in json.loads(SOURCE.read_text("utf-8")).items():
        lines.append(f"  {part}: {{")
        for name, value in entries.items():
            key, text = name if name.isidentifier() else json.dumps(name), json.dumps(value)
            if isinstance(value, list) and len(text) + len(key) > _WIDTH:
                lines += [f"    {key}: [", *(f"      {json.dumps(each)}," for each in value), "    ],"]
            else:
                lines.append(f"    {key}: {text},")
        lines.append("  },")
    return "\n".join((*lines, "});", ""))


if __name__ == "__main__":
    MODULE.write_text(module(), "utf-8")
