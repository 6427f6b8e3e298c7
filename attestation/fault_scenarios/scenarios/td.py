"""The TD itself: what no reference value can allow, and the TDX module under it."""

from __future__ import annotations

from typing import Final

from affiant.attestation.quote.judge.verdict import Stage
from affiant.attestation.release.platform_identity import TD_ATTRIBUTES, XFAM
from affiant.attestation.simulated.platform.tcb_documents import ModuleRecord, SVNLevel
from fault_scenarios.changes import bench, each, module, tcb_info, tcb_wording
from fault_scenarios.scenario import TD15, Accepted, Refused, Scenario

__all__ = ["SCENARIOS", "with_bits"]

_MISMATCH: Final = Refused("tdx_module.mismatch", Stage.VERIFICATION)


def with_bits(value: bytes, *bits: int) -> bytes:
    """``value``, little-endian, with ``bits`` turned over."""
    number = int.from_bytes(value, "little")
    for bit in bits:
        number ^= 1 << bit
    return number.to_bytes(len(value), "little")


def _attributes(name: str, description: str, *bits: int) -> Scenario:
    return Scenario(
        name,
        description,
        (38,),
        Refused("appraisal.td_attributes", Stage.APPRAISAL),
        bench(td_attributes=with_bits(TD_ATTRIBUTES, *bits)),
    )


def _xfam(name: str, description: str, *bits: int) -> Scenario:
    return Scenario(
        name,
        description,
        (39,),
        Refused("appraisal.xfam", Stage.APPRAISAL),
        bench(xfam=with_bits(XFAM, *bits)),
    )


_LEVELS: Final = (SVNLevel(isv_svn=5),)

SCENARIOS: Final = (
    Scenario(
        "td-debug",
        "The TD is debuggable: its host can read its memory.",
        (38,),
        Refused("appraisal.debug", Stage.APPRAISAL),
        bench(td_attributes=with_bits(TD_ATTRIBUTES, 0)),
    ),
    _attributes("td-hgs-profiling", "The TD can be profiled: bit 4.", 4),
    _attributes("td-perf-profiling", "The TD can be profiled: bit 5.", 5),
    _attributes("td-pmt-profiling", "The TD can be profiled: bit 6.", 6),
    _attributes("td-reserved-low-bit", "A reserved bit of TD_ATTRIBUTES is set: bit 1.", 1),
    _attributes("td-reserved-middle-bit", "A reserved bit of TD_ATTRIBUTES is set: bit 23.", 23),
    _attributes("td-reserved-high-bit", "A reserved bit of TD_ATTRIBUTES is set: bit 61.", 61),
    _attributes("td-service-td-extension", "SERVTD_EXT is set.", 17),
    _attributes("td-migratable", "The TD can be migrated to another host.", 29),
    _attributes("td-without-sept-ve-disable", "The host can deliver exceptions on pages of its choice.", 28),
    Scenario(
        "td-with-pks-kl-perfmon",
        "Protection keys, key locker and performance counters are no fault by themselves.",
        (38,),
        Accepted(),
        bench(td_attributes=with_bits(TD_ATTRIBUTES, 30, 31, 63)),
    ),
    Scenario(
        "td-service-td-bound",
        "A service TD is bound to the TD.",
        (38,),
        Refused("appraisal.service_td", Stage.APPRAISAL),
        bench(mrservicetd=b"\x01" * 48),
        TD15,
    ),
    _xfam("xfam-without-x87", "XFAM lacks x87, which every TD has.", 0),
    _xfam("xfam-without-sse", "XFAM lacks SSE, which every TD has.", 1),
    _xfam("xfam-undefined-bit", "XFAM has a bit that no TD may have: bit 3.", 3),
    _xfam("xfam-undefined-high-bit", "XFAM has a bit that no TD may have: bit 63.", 63),
    Scenario(
        "xfam-of-another-cloud",
        "XFAM has other features than the default, all of them permitted.",
        (39,),
        Accepted(),
        bench(xfam=bytes.fromhex("e718060000000000")),
    ),
    Scenario(
        "module-unknown",
        "The TDX module's version is not listed in TCB Info.",
        (28,),
        _MISMATCH,
        tcb_info(modules=(ModuleRecord(identifier="TDX_02", levels=_LEVELS),)),
    ),
    Scenario(
        "no-module-identities",
        "TCB Info lists no module version at all.",
        (28,),
        _MISMATCH,
        tcb_wording(without=frozenset({"tdxModuleIdentities"})),
    ),
    Scenario(
        "module-listed-in-decimal",
        "A TDX module of version 27 is listed as TDX_27 instead of TDX_1b.",
        (28,),
        _MISMATCH,
        each(
            module(tee_tcb_svn=bytes((5, 27, 3)) + bytes(13)),
            tcb_info(modules=(ModuleRecord(identifier="TDX_27", levels=_LEVELS),)),
        ),
    ),
    Scenario(
        "current-module-unknown",
        "The TDX module that runs now is of a version that TCB Info does not list.",
        (28, 33),
        _MISMATCH,
        bench(current_tee_tcb_svn=bytes((5, 2, 3)) + bytes(13)),
        TD15,
    ),
    Scenario(
        "module-signer-not-zero",
        "The TDX module is signed by somebody else.",
        (29,),
        _MISMATCH,
        module(mrsignerseam=b"\x01" * 48),
    ),
    Scenario(
        "module-signer-not-zero-though-listed",
        "The TDX module is signed by somebody else, whom TCB Info lists as its signer.",
        (29,),
        _MISMATCH,
        each(
            module(mrsignerseam=b"\x01" * 48),
            tcb_info(modules=(ModuleRecord(identifier="TDX_01", mrsigner=b"\x01" * 48, levels=_LEVELS),)),
        ),
    ),
    Scenario(
        "module-attributes-not-zero",
        "SEAMATTRIBUTES are not zero.",
        (29,),
        _MISMATCH,
        module(seam_attributes=b"\x01" + bytes(7)),
    ),
    Scenario(
        "module-attributes-masked-out",
        "SEAMATTRIBUTES are not zero, and the document's mask looks away.",
        (29,),
        _MISMATCH,
        each(
            module(seam_attributes=b"\x01" + bytes(7)),
            tcb_info(modules=(ModuleRecord(identifier="TDX_01", attributes_mask=bytes(8), levels=_LEVELS),)),
        ),
    ),
    Scenario(
        "module-0-of-another-signer",
        "A TDX module of version 0 is signed by somebody else.",
        (28, 29),
        _MISMATCH,
        module(tee_tcb_svn=bytes((5, 0, 3)) + bytes(13), mrsignerseam=b"\x01" * 48),
    ),
)
