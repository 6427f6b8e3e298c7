"""``python -m benchmarks [NAME ...]``: run, print a table, write JSON."""

from __future__ import annotations

import importlib
import json
import platform
import sys
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path

FOLDER = Path(__file__).parent
NOT_MEASURED = {
    "__init__",
    "__main__",
    "bare_tools",
    "control_group",
    "load",
    "paced_upstream",
    "proxies",
    "rego_policy",
    "sessions",
    "timing",
}


def main(names: list[str]) -> int:
    known = sorted(path.stem for path in FOLDER.glob("*.py") if path.stem not in NOT_MEASURED)
    rows: list[dict[str, object]] = []
    failed = False
    for name in names or known:
        if name not in known:
            print(f"no benchmark {name!r}; there are: {', '.join(known)}", file=sys.stderr)
            return 2
        print(f"measuring {name} ...", file=sys.stderr, flush=True)
        try:
            figures = importlib.import_module(f"benchmarks.{name}").measure()
        except Exception as error:  # noqa: BLE001 - one benchmark that cannot run here must not hide the others
            print(f"{name} was not measured: {type(error).__name__}: {error}", file=sys.stderr)
            failed = True
            continue
        for figure in figures:
            rows.append({**asdict(figure), "ratio": figure.ratio, "benchmark": name})
            print(figure)
    results = FOLDER / "results"
    results.mkdir(exist_ok=True)
    now = datetime.now(UTC)
    file = results / f"{now:%Y%m%dT%H%M%SZ}.json"
    document = {
        "at": now.isoformat(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "rows": rows,
    }
    file.write_text(json.dumps(document, indent=1) + "\n")
    print(f"written to {file.relative_to(FOLDER.parent)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
