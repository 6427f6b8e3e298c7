"""What only a reader's policy refuses: a file that a person wrote, docs/formats/appraisal_policy.md.

The evidence is authentic in all of these; another reader may accept it.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.release.platform_identity import MRSEAM, PPID, TD_ATTRIBUTES, XFAM, PCKIssuer
from fault_scenarios.bench import IMAGE, RELEASE, Bench
from fault_scenarios.changes import (
    another_root,
    bench,
    current_level,
    each,
    machine,
    platform_levels,
)
from fault_scenarios.scenario import Accepted, Change, Scenario
from fault_scenarios.scenarios.levels import reaching
from fault_scenarios.scenarios.references import asking, only_asked
from fault_scenarios.scenarios.td import with_bits

__all__ = ["SCENARIOS"]

_GOOD: Final = Accepted()
_OTHER: Final = b"\x01"
_ADVISORY: Final = "INTEL-SA-99901"


def _policy(**sections: str) -> Change:
    """Against a policy that accepts this platform and its TDs, with other ``sections``."""

    def change(it: Bench) -> Bench:
        return asking(policy=_policy_file(it, sections))(it)

    return change


def _policy_file(it: Bench, sections: dict[str, str]) -> bytes:
    image = RELEASE.images[IMAGE].registers()
    own = {
        "class": "simulated",
        "roots": f"[{sha256_name(it.platform.root_spki())}]",
        "images": f"\n  - name: {IMAGE.value}\n    shapes: [simulated]"
        + "".join(f"\n    {name}: {value}" for name, value in sorted(image.items())),
        "tcb": "\n  minimum_evaluation: 1",
        "xfam": f"[{XFAM.hex()}]",
        "machines": "any",
        "pck_flags": "any",
    }
    lines = ["# SIMULATED: what a reader accepts", "typ: affiant-appraisal/1"]
    lines += [f"{name}: {text}".replace(": \n", ":\n") for name, text in (own | sections).items()]
    return ("\n".join(lines) + "\n").encode("ascii")


def _day(when: datetime) -> str:
    return f"{when.astimezone(UTC):%Y-%m-%dT00:00:00Z}"


def _timed(make: Callable[[str, str], dict[str, str]]) -> Change:
    """A policy whose entries end: ``make`` gets a day that has gone, and one that is to come."""

    def change(it: Bench) -> Bench:
        gone, to_come = _day(it.now - timedelta(days=2)), _day(it.now + timedelta(days=365))
        return _policy(**make(gone, to_come))(it)

    return change


def _due_since(days: int) -> Change:
    """The platform is out of date, and an update has been due for so many days."""

    def change(it: Bench) -> Bench:
        due = it.now - timedelta(days=days)
        return platform_levels(
            lambda its: (
                current_level(its, pce_svn=its.machine.pce_svn + 1, date=due),
                current_level(its, status="OutOfDate", advisories=(_ADVISORY,)),
            )
        )(it)

    return change


_GRACE: Final = (
    "\n  minimum_evaluation: 1\n  grace:\n    - {status: OutOfDate, days: 30, reason: time for the update}"
)


def _excepted(until: str) -> str:
    return (
        "\n  minimum_evaluation: 1\n  statuses: [UpToDate, SWHardeningNeeded]\n  advisories:"
        f"\n    - {{id: {_ADVISORY}, until: '{until}', reason: hardened elsewhere}}"
    )


SCENARIOS: Final = (
    Scenario("policy-holds", "Every policy of a person's file holds.", (37, 38, 39, 40), _GOOD, _policy()),
    Scenario(
        "policy-within-grace",
        "The platform is out of date, and the update has been due for 10 of the 30 days of grace.",
        (37,),
        Accepted("OutOfDate", frozenset((_ADVISORY,))),
        each(_due_since(10), _policy(tcb=_GRACE)),
    ),
    Scenario(
        "policy-grace-over",
        "The platform is out of date, and the update has been due for longer than the grace.",
        (37,),
        only_asked("grace_over", "OutOfDate", _ADVISORY),
        each(_due_since(40), _policy(tcb=_GRACE)),
    ),
    Scenario(
        "policy-advisory-open",
        "The status is an accepted one, and an advisory is open that nobody excepted.",
        (35, 37),
        only_asked("advisory", "SWHardeningNeeded", _ADVISORY),
        each(
            reaching("SWHardeningNeeded", _ADVISORY),
            _policy(tcb="\n  minimum_evaluation: 1\n  statuses: [UpToDate, SWHardeningNeeded]"),
        ),
    ),
    Scenario(
        "policy-advisory-excepted",
        "An advisory is open that is excepted by its id.",
        (35, 37),
        Accepted("SWHardeningNeeded", frozenset((_ADVISORY,))),
        each(
            reaching("SWHardeningNeeded", _ADVISORY), _timed(lambda _, to_come: {"tcb": _excepted(to_come)})
        ),
    ),
    Scenario(
        "policy-exception-lapsed",
        "The exception for an open advisory ended two days ago.",
        (35, 37),
        only_asked("exception_lapsed", "SWHardeningNeeded", _ADVISORY),
        each(reaching("SWHardeningNeeded", _ADVISORY), _timed(lambda gone, _: {"tcb": _excepted(gone)})),
    ),
    Scenario(
        "policy-of-hardware",
        "The policy is one for hardware.",
        (37,),
        only_asked("evidence_class"),
        _policy(**{"class": "hardware", "roots": "[intel]"}),
    ),
    Scenario(
        "policy-other-root",
        "The policy names another root than the one that is trusted.",
        (37,),
        only_asked("root"),
        lambda it: _policy(roots=f"[{sha256_name(another_root(it).root_spki())}]")(it),
    ),
    Scenario(
        "policy-evaluation-number-too-low",
        "The collateral is of an older TCB evaluation than the policy asks.",
        (21,),
        only_asked("evaluation_number"),
        _policy(tcb="\n  minimum_evaluation: 2"),
    ),
    Scenario(
        "policy-other-td-attributes",
        "TD_ATTRIBUTES have a permitted bit more than the policy accepts.",
        (38,),
        only_asked("td_attributes"),
        each(bench(td_attributes=with_bits(TD_ATTRIBUTES, 63)), _policy()),
    ),
    Scenario(
        "policy-other-xfam",
        "XFAM is permitted, and another than the policy accepts.",
        (39,),
        only_asked("xfam"),
        each(bench(xfam=with_bits(XFAM, 17)), _policy()),
    ),
    Scenario(
        "policy-other-machine",
        "The machine is not on the list.",
        (42,),
        only_asked("machine"),
        _policy(machines=f"[{{ppid: {(_OTHER * 16).hex()}}}]"),
    ),
    Scenario(
        "policy-known-machine",
        "The machine is on the list.",
        (42,),
        _GOOD,
        _policy(machines=f"[{{ppid: {PPID.hex()}}}]"),
    ),
    Scenario(
        "policy-flag-not-as-demanded",
        "The platform has SMT, and the policy demands that it has none.",
        (42,),
        only_asked("pck_flags"),
        _policy(pck_flags="{dynamic_platform: any, cached_keys: any, smt: false}"),
    ),
    Scenario(
        "policy-flag-not-said",
        "The policy demands a static platform; a certificate of the Processor CA does not say.",
        (42,),
        only_asked("pck_flags"),
        each(
            machine(issuer=PCKIssuer.PROCESSOR),
            _policy(pck_flags="{dynamic_platform: false, cached_keys: any, smt: any}"),
        ),
    ),
    Scenario(
        "policy-flag-as-demanded",
        "The platform is static, as the policy demands.",
        (42,),
        _GOOD,
        each(
            machine(dynamic_platform=False),
            _policy(pck_flags="{dynamic_platform: false, cached_keys: any, smt: any}"),
        ),
    ),
    Scenario(
        "policy-other-tdx-module",
        "The TDX module's measurement is not on the list.",
        (40,),
        only_asked("tdx_module"),
        _policy(mrseam=f"[{(_OTHER * 48).hex()}]"),
    ),
    Scenario(
        "policy-known-tdx-module",
        "The TDX module's measurement is on the list.",
        (40,),
        _GOOD,
        _policy(mrseam=f"[{MRSEAM.hex()}]"),
    ),
    Scenario(
        "policy-other-image",
        "The TD runs an image that the policy does not name.",
        (40,),
        only_asked("image"),
        each(bench(mrtd=_OTHER * 48), _policy()),
    ),
)
