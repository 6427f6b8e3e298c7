"""The demo fails when any one control is off.

Each case changes a copy of the product in one place (two, where a second layer would stop the same attack), and
names every line of the demo that has to say NO for it, and no other line may. A patch that does not find its
place exactly once fails: when code moves, these tests move with it.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.demo.conftest import MakeCopy
from tests.demo.source_copy import Patch, SourceCopy

NOTHING_ARRIVED = "none of these arrived anywhere"


@dataclass(frozen=True, slots=True)
class Sabotage:
    """A control, the patches that switch it off, and the lines that must notice.

    ``may_notice``: lines of which some may follow, because they look at the same bytes.
    """

    control: str
    patches: tuple[Patch, ...]
    lines: tuple[str, ...]
    may_notice: tuple[str, ...] = ()


REVOCATION = Sabotage(
    "revocation list",
    (
        Patch(
            "attestation/affiant/attestation/tdx/pki/crl.py",
            "if certificate.serial in self.revoked_serials:",
            "if False:",
        ),
    ),
    ("a session on a platform whose PCK is revoked was refused admission, and receipted",),
)
DURABLE_COMMIT = Sabotage(
    "durable commit",
    (
        Patch(
            "gateway/affiant/gateway/inference/inference.py",
            "hidden=relay.hidden)\n        await recorded.durable\n",
            "hidden=relay.hidden)\n",
        ),
        # Where another entry took the last of the room, the answer's own is rejected before anybody waits for it.
        Patch(
            "gateway/affiant/gateway/store/journal.py",
            "        self.require()\n        items: list",
            "        items: list",
        ),
    ),
    ("a gateway whose journal cannot be written let no end of an answer out",),
)
MOUNTS = Sabotage(
    "mounts",
    (
        Patch(
            "sandbox/affiant/sandbox/isolation/plan/rootfs.py",
            '    return (Shown("/usr", "/usr"),)\n',
            '    (at / "root").mkdir()\n    return (Shown("/usr", "/usr"), Shown("/root", "{place}/outside"))\n',
        ),
        # The supervisor and what it starts see nothing of closed folders; these tests run below one.
        Patch(
            "sandbox/affiant/sandbox/session/supervisor_link.py",
            "Need(str(folder), writable=True),",
            'Need(str(folder), writable=True), Need("{place}/outside"),',
        ),
    ),
    ("reading outside its scope found nothing of the host",),
)
PORT = Sabotage(
    "port",
    (
        Patch(
            "policy/affiant/policy/decision/egress.py",
            "allows = tuple(rule for rule in self.allows if rule.port == port and rule.scheme == scheme)",
            "allows = tuple(rule for rule in self.allows if rule.scheme == scheme)",
        ),
        Patch(
            "policy/affiant/policy/decision/egress.py",
            "for rule in found.allows if rule.port == port and rule.scheme == scheme])",
            "for rule in found.allows if rule.scheme == scheme])",
        ),
        # How a connection is inspected is looked up by port as well; without it, nothing would be opened.
        Patch(
            "policy/affiant/policy/decision/egress.py",
            "return None if found is None else found.tls.get(port)",
            "return None if found is None else next(iter(found.tls.values()), None)",
        ),
    ),
    ("a port that is not listed, at an allowed host, was refused and receipted", NOTHING_ARRIVED),
)
HOST_LIST = Sabotage(
    "host list",
    (
        Patch(
            "policy/affiant/policy/decision/egress.py",
            "                return self._NOT_LISTED\n",
            '                return Decision(Effect.ALLOW, "allowed", ("egress/0",))\n',
        ),
        # How a connection is inspected is looked up by host as well.
        Patch(
            "policy/affiant/policy/decision/egress.py",
            "return None if found is None else found.tls.get(port)",
            "return TLSMode.INSPECT if found is None else found.tls.get(port)",
        ),
    ),
    ("a host that is not listed was refused and receipted", NOTHING_ARRIVED),
)
TOOLS_OFFERED = Sabotage(
    "tool filter, requests",
    (
        Patch(
            "gateway/affiant/gateway/inference/inference.py",
            "self._dialect.without_tools(body, allowed) if redacted else body",
            "body",
        ),
    ),
    ("a tool outside its profile was removed from the request",),
)
TOOLS_CALLED = Sabotage(
    "tool filter, answers",
    (
        Patch(
            "gateway/affiant/gateway/dialects/judged_calls.py",
            "if call.nameless or denied is not None:",
            "if False:",
        ),
    ),
    ("the model's call of it was stopped, whole and streaming",),
)
BINDING = Sabotage(
    "placeholder binding",
    (
        Patch(
            "secrets/affiant/secrets/injection/detection.py",
            "if not binding.covers(scheme=scheme, host=host, port=port):",
            "if False:",
        ),
        # The profile is asked again, by name and place; alone it would stop the same request.
        Patch(
            "policy/affiant/policy/decision/compiled.py",
            "if (host, port) not in grant.hosts or mode is None:",
            "if mode is None:",
        ),
    ),
    ("its placeholder for an allowed host of no secret was refused and receipted", NOTHING_ARRIVED),
    ("the secret's host received the real value",),
)
PLACEMENT = Sabotage(
    "placeholder placement",
    (
        Patch(
            "secrets/affiant/secrets/injection/detection.py",
            "for match in self._searcher.matches(data):",
            "for match in ():",
        ),
    ),
    ("its placeholder in a body and in a query was refused and receipted", NOTHING_ARRIVED),
)
REDACTION = Sabotage(
    "redaction",
    (
        Patch(
            "secrets/affiant/secrets/redaction/redaction.py",
            "pieces += (data[max(done, shown) : match.start], self._replacements[match.key])",
            "pieces += (data[max(done, shown) : match.start], data[match.start : match.end])",
        ),
    ),
    ("the echo came back redacted", "neither output, files nor the agent's own /proc showed it"),
    ("the value is in the memory of none of",),
)

SABOTAGES = (
    *(REVOCATION, DURABLE_COMMIT, MOUNTS, PORT, HOST_LIST, TOOLS_OFFERED, TOOLS_CALLED, BINDING, PLACEMENT),
    REDACTION,
)
CASES = [pytest.param(case, id=case.control) for case in SABOTAGES]


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("sabotage", CASES)
def test_the_demo_fails_at_the_line_of_the_control_that_is_off(
    sabotage: Sabotage, make_copy: MakeCopy
) -> None:
    copy = make_copy()
    copy.apply(*(_placed(patch, copy) for patch in sabotage.patches))
    told = copy.demo()
    assert told.exit_code == 1, told.text
    wrong = told.lines("NO")
    assert set(sabotage.lines) <= set(wrong), told.text
    expected = (*sabotage.lines, *sabotage.may_notice)
    assert all(line.startswith(expected) for line in wrong), told.text


@pytest.mark.parametrize("sabotage", SABOTAGES, ids=lambda case: case.control)
def test_every_patch_still_finds_its_place(sabotage: Sabotage) -> None:
    """At once, and not only when the long tests run."""
    root = Path(__file__).resolve().parents[2]
    for patch in sabotage.patches:
        assert (root / patch.path).read_text().count(patch.old) == 1, patch


def _placed(patch: Patch, copy: SourceCopy) -> Patch:
    return Patch(patch.path, patch.old, patch.new.replace("{place}", str(copy.place)))


@pytest.mark.parametrize(("text", "times"), [("other\n", "0 times"), ("line\nline\n", "2 times")])
def test_a_patch_that_does_not_fit_exactly_once_is_a_failure(tmp_path: Path, text: str, times: str) -> None:
    copy = SourceCopy(tmp_path)
    copy.tree.mkdir()
    (copy.tree / "agent.py").write_text(text)
    with pytest.raises(AssertionError, match=times):
        copy.apply(Patch("agent.py", "line\n", "changed\n"))
    assert (copy.tree / "agent.py").read_text() == text
