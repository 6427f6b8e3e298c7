"""The published page about record kinds: ``docs/formats/records.md``.

``python -m affiant.attestation.schema.records_page`` prints it.
"""

from __future__ import annotations

import sys

from affiant.attestation.schema.records import CONCEALING, KINDS, common_members

__all__ = ["record_page"]


def record_page() -> str:
    """The page, with a final newline."""
    lines = [
        "# Record kinds",
        "",
        "Generated from `affiant.attestation.schema.records`; the table there is normative. `?` marks an optional",
        "member, `_sd[n]` the fixed number of salted digests that an object always carries.",
        "",
        "Common to all: `"
        + "`, `".join(common_members("boot", "gateway", "simulated"))
        + "`; optional `eat_nonce`,",
        "`par`, `lim`, `ext`. Records of a session also carry `agt`, `_sd_alg`, `_sd[1]` (hidden: `trc`) and",
        "`peer` once there is one.",
        "",
        "`agt.key` is the thumbprint (RFC 7638) of the session key that the request's proof rests on: it signed the",
        "proof, or the request for the key of the proof's MAC.",
        "",
        "| kind | leaf | signer | members |",
        "|---|---|---|---|",
    ]
    for name, row in KINDS.items():
        members = [f"`{m}` {s.describe()}" for m, s in row.required.items()]
        members += [f"`{m}`? {s.describe()}" for m, s in row.optional.items()]
        text = "; ".join(members).replace("|", "\\|")
        lines.append(f"| `{name}` | {row.leaf} | {', '.join(sorted(row.signers))} | {text} |")
    lines += ["", "## Hidden members", "", "| object | digests | may be disclosed |", "|---|---|---|"]
    for name, shape in CONCEALING.items():
        hidden = "; ".join(f"`{m}` {s.describe()}" for m, s in shape.hidden.items())
        lines.append(f"| `{name}` | {shape.sd} | {hidden} |")
    lines.append("| `sec[]` | 2 | `ref`, `rule` text |")
    lines.append("| `ini` | 1 | `sub` text |")
    lines.append("| (payload) | 1 | `trc` {t, s} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":  # pragma: no cover
    sys.stdout.write(record_page())
