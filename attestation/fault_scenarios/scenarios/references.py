"""What only a reader's question refuses: reference values, and what is expected of one TD.

The evidence is authentic in all of these; another reader may accept it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any, Final

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.release.platform_identity import TD_ATTRIBUTES, XFAM
from affiant.attestation.simulated.platform.platform import SimulatedPlatform
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI
from fault_scenarios.bench import IMAGE, MRCONFIGID, RELEASE, REPORT_DATA, Bench
from fault_scenarios.changes import (
    another_root,
    bench,
    each,
)
from fault_scenarios.scenario import TD15, Accepted, Change, Refused, Scenario
from fault_scenarios.scenarios.levels import reaching, relaunched
from fault_scenarios.scenarios.td import with_bits

__all__ = ["SCENARIOS", "asking", "only_asked"]

_GOOD: Final = Accepted()
_OTHER: Final = b"\x01"
_ADVISORY: Final = "INTEL-SA-99901"


def only_asked(code: str, status: str = "UpToDate", *advisories: str) -> Refused:
    """An error of what is asked, of evidence that verifies with this status and these advisories."""
    return Refused(f"appraisal.{code}", Stage.APPRAISAL, Accepted(status, frozenset(advisories)))


def asking(**fields: Any) -> Change:
    """The reader asks more."""
    return lambda it: replace(it, asked=replace(it.asked, **fields))


def _referred(**members: Any) -> Change:
    """Against the reference values of this platform and of what its TDs run, with other ``members``."""

    def change(it: Bench) -> Bench:
        document = json.loads(reference_values(RELEASE, it.platform.root_spki()))
        return asking(reference=canonical(document | members))(it)

    return change


def _referred_to_another(it: Bench) -> Bench:
    other = sha256_name(another_root(it).root_spki())
    return _referred(roots=[other])(it)


_EVERYTHING: Final = each(
    _referred(),
    asking(mrconfigid=MRCONFIGID, report_data=REPORT_DATA, rtmr3=bytes(48), event_log=True),
)
_HARDWARE: Final = _referred(cls="hardware", roots=[sha256_name(INTEL_SGX_ROOT_CA_SPKI)])


def _evaluated(it: SimulatedPlatform, number: int) -> SimulatedPlatform:
    return replace(it, tcb_info=replace(it.tcb_info, evaluation_number=number))


def _mixed() -> dict[str, Any]:
    """Two images, each with one of the measurements of the TD replaced."""
    own = RELEASE.images[IMAGE].registers()
    other = "01" * 48
    return {"gateway": [own | {"mrtd": other}, own | {"rtmr2": other}], "session": [own | {"rtmr1": other}]}


SCENARIOS: Final = (
    Scenario(
        "everything-asked",
        "Reference values, launcher, keys and nonce, run time and event log are asked, and hold.",
        (37, 38, 39, 40, 41, 44),
        _GOOD,
        _EVERYTHING,
    ),
    Scenario(
        "reference-of-hardware",
        "The reader's reference values are those of hardware.",
        (37,),
        only_asked("evidence_class"),
        _HARDWARE,
    ),
    Scenario(
        "reference-of-another-root",
        "The reader's reference values name another root than the one that is trusted.",
        (37,),
        only_asked("root"),
        _referred_to_another,
    ),
    Scenario(
        "status-not-accepted",
        "The platform is out of date, and the reference values accept UpToDate alone.",
        (37,),
        only_asked("tcb_status", "OutOfDate", _ADVISORY),
        each(reaching("OutOfDate", _ADVISORY), _referred()),
    ),
    Scenario(
        "sw-hardening-not-accepted",
        "The platform needs software hardening, which is no UpToDate.",
        (37,),
        only_asked("tcb_status", "SWHardeningNeeded", _ADVISORY),
        each(reaching("SWHardeningNeeded", _ADVISORY), _referred()),
    ),
    Scenario(
        "relaunch-not-accepted",
        "A relaunch of the TD is advised, and the reference values accept UpToDate alone.",
        (33, 37),
        only_asked("tcb_status", "TDRelaunchAdvised", "INTEL-SA-99902"),
        each(relaunched(), _referred()),
        TD15,
    ),
    Scenario(
        "evaluation-number-too-low",
        "The collateral is of an older TCB evaluation than the reference values ask.",
        (21,),
        only_asked("evaluation_number"),
        _referred(tcb={"statuses": ["UpToDate"], "min_evaluation": 2}),
    ),
    Scenario(
        "lower-evaluation-number-counts",
        "TCB Info is of evaluation 2, QE Identity of 1: the lower one counts.",
        (21,),
        only_asked("evaluation_number"),
        each(
            lambda it: replace(it, platform=_evaluated(it.platform, 2)),
            _referred(tcb={"statuses": ["UpToDate"], "min_evaluation": 2}),
        ),
    ),
    Scenario(
        "td-attributes-not-as-pinned",
        "TD_ATTRIBUTES have a permitted bit more than the reference values.",
        (38,),
        only_asked("td_attributes"),
        each(bench(td_attributes=with_bits(TD_ATTRIBUTES, 63)), _referred()),
    ),
    Scenario(
        "xfam-not-as-pinned",
        "XFAM is permitted, and another than in the reference values.",
        (39,),
        only_asked("xfam"),
        each(bench(xfam=with_bits(XFAM, 17)), _referred()),
    ),
    Scenario(
        "other-mrtd",
        "The TD's MRTD is that of no accepted image.",
        (40,),
        only_asked("image"),
        each(bench(mrtd=_OTHER * 48), _referred()),
    ),
    Scenario(
        "mix-of-two-images",
        "Each measurement is accepted by itself, and the four of no accepted image.",
        (40,),
        only_asked("image"),
        _referred(images=_mixed()),
    ),
    Scenario(
        "mrconfigid-unbound",
        "MRCONFIGID is all zero: the launcher bound nothing.",
        (40,),
        only_asked("mrconfigid_unbound"),
        each(bench(mrconfigid=bytes(48)), asking(mrconfigid=MRCONFIGID)),
    ),
    Scenario(
        "other-mrconfigid",
        "The launcher bound something else.",
        (40,),
        only_asked("mrconfigid"),
        asking(mrconfigid=_OTHER * 48),
    ),
    Scenario(
        "other-report-data",
        "REPORTDATA bind other keys or another nonce: a replayed quote.",
        (41, 43),
        only_asked("report_data"),
        asking(report_data=_OTHER * 64),
    ),
    Scenario(
        "report-data-one-bit",
        "REPORTDATA differ in the last bit.",
        (41,),
        only_asked("report_data"),
        asking(report_data=with_bits(REPORT_DATA, 511)),
    ),
    Scenario(
        "report-data-half",
        "The first half of REPORTDATA is as expected, the second is zero: nothing is padded.",
        (41,),
        only_asked("report_data"),
        each(bench(report_data=REPORT_DATA[:32] + bytes(32)), asking(report_data=REPORT_DATA)),
    ),
    Scenario(
        "other-rtmr3",
        "RTMR3 is another than expected.",
        (44,),
        only_asked("rtmr3"),
        each(bench(extensions=(_OTHER * 48,)), asking(rtmr3=_OTHER * 48)),
    ),
    Scenario(
        "gateway-extended-rtmr3",
        "The image extends nothing into RTMR3, and something was extended.",
        (44,),
        only_asked("rtmr3"),
        each(bench(extensions=(_OTHER * 48,)), _referred()),
    ),
)
