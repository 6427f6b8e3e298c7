"""Class *platform*: keys are bound to evidence, and that is of an accepted platform, image and configuration."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from vectors.cases.edits import one
from vectors.making.authority import Machine
from vectors.making.documents import EAR_EXTENSION, START, identifier
from vectors.making.encoding import canonical, link
from vectors.making.faults import Fault, put, take
from vectors.making.keys import ed25519_key, seeded
from vectors.making.platform import Platform
from vectors.making.story import Story
from vectors.making.tree import vkey

__all__ = ["CASES"]

_OTHER = "sha256:" + "1" * 64
_UNBOUND = {"key.bound": "key.unbound"}
_EVIDENCE = {"key.evidence": "key.unbound"}


def _appraisal(reason: str) -> dict[str, str]:
    return {"tee.appraisal": reason}


def _body(**changes: Any) -> Fault:
    return lambda body: replace(body, **changes)


def _platform(name: str, about: str, reason: str, **changes: Any) -> Any:
    """A case of another platform, under the same root."""
    return one(f"platform/{name}", about, None, _appraisal(reason), platform=Platform(**changes))


def _rtmr(number: int) -> Fault:
    def fault(body: Any) -> Any:
        rtmrs = list(body.rtmrs)
        rtmrs[number] = seeded("another register", 48)
        return replace(body, rtmrs=rtmrs)

    return fault


def _reversed(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [*events[:3], *reversed(events[3:])]


def _event(name: str) -> Fault:
    return lambda events: [*events, {"rtmr": 3, "name": name, "payload": {}}]


def _payload(events: list[dict[str, Any]]) -> list[dict[str, Any]]:
    events[4]["payload"] = {**events[4]["payload"], "fil": _OTHER}
    return events


def _flip(at: int) -> Fault:
    return lambda data: data[:at] + bytes((data[at] ^ 1,)) + data[at + 1 :]


def _with_manifest(evidence: bytes) -> bytes:
    parts = json.loads(evidence)
    of_session = json.loads(Story().new_session().supervisor.evidence)
    return canonical(parts | {name: of_session[name] for name in ("manifest", "activation")})


def _simulated(payload: dict[str, Any]) -> dict[str, Any]:
    payload["submods"]["session"][EAR_EXTENSION]["cls"] = "simulated"
    return payload


def _another_log(statement: dict[str, Any]) -> dict[str, Any]:
    origin = "another.log.invalid"
    return statement | {
        "log": statement["log"] | {"origin": origin, "vkey": vkey(origin, ed25519_key("log"))}
    }


def _called_a_machine(story: Story) -> None:
    told = story.sessions["session"]
    told.activation = told.activation | {"iso": "vm"}


CASES = (
    one(
        "platform/report-data",
        "The session's quote binds other bytes than its keyset.",
        {"body:session": _body(report_data=seeded("other bytes", 64))},
        _UNBOUND,
    ),
    one(
        "platform/report-data-of-gateway",
        "The gateway's quote binds other bytes than its keyset.",
        {"body:gateway": _body(report_data=bytes(64))},
        _UNBOUND,
    ),
    one(
        "platform/report-data-half",
        "The first 32 bytes of the binding, and zeros.",
        {"body:session": lambda body: replace(body, report_data=body.report_data[:32] + bytes(32))},
        _UNBOUND,
    ),
    one(
        "platform/keyset-expired",
        "Records after the end that their keyset names.",
        {"document:gateway-statement": put(not_after=START + 1)},
        {"key.not_after": "key.expired"},
    ),
    one(
        "platform/other-evidence",
        "Records of one key name different evidence.",
        {"members:close": put(evd=link(b"other evidence"))},
        _EVIDENCE,
        not_made=("bundle.objects",),
    ),
    one(
        "platform/stolen-evidence",
        "The session's evidence is a genuine one, of another session: its quote binds that one's key.",
        {"evidence:session": lambda _: Story().new_session("elsewhere").supervisor.evidence},
        _EVIDENCE,
    ),
    one(
        "platform/stolen-evidence-of-gateway",
        "The gateway's evidence is a genuine one, of another gateway.",
        {"evidence:gateway": lambda _: Story().new_gateway("elsewhere").evidence},
        _EVIDENCE,
    ),
    one(
        "platform/gateway-with-manifest",
        "The gateway's evidence holds what only a session's does.",
        {"evidence:gateway": _with_manifest},
        _EVIDENCE,
    ),
    one(
        "platform/configuration-unbound",
        "The gateway's MRCONFIGID is not its configuration's digest.",
        {"body:gateway": _body(mrconfigid=seeded("another configuration", 48))},
        {"conf.bound": "conf.unbound"},
    ),
    one(
        "platform/slower-than-configured",
        "The gateway's keyset promises an epoch every hour, its configuration every minute.",
        {"document:gateway-statement": put(epoch_s=3600)},
        {"conf.bound": "conf.unbound"},
    ),
    one(
        "platform/issuer-not-configured",
        "The gateway's keyset and records name another issuer than its configuration.",
        {"document:gateway-statement": put(iss="urn:affiant:gateway:another")},
        {"conf.bound": "conf.unbound"},
    ),
    one(
        "platform/log-not-configured",
        "The gateway's keyset names a log of its own beside the one that it is configured for.",
        {"document:gateway-statement": _another_log},
        {"conf.bound": "conf.unbound"},
    ),
    one(
        "platform/keyset-of-another-manifest",
        "The session's keyset names another manifest than its evidence holds and MRCONFIGID binds.",
        {"document:session-statement": put(man=link(b"another manifest"))},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/keyset-of-another-activation",
        "The session's keyset names another activation than its evidence holds.",
        {"document:session-statement": put(act=link(b"another activation"))},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/activation-of-another-session",
        "The activation, bound as it is, was made for another session.",
        {"document:session-activation": put(ses=identifier("another session"))},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/manifest-unbound",
        "The session's MRCONFIGID is not its manifest's.",
        {"body:session": _body(mrconfigid=seeded("another manifest", 48))},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/manifest-zero",
        "The session's MRCONFIGID is zero: the launcher bound nothing.",
        {"body:session": _body(mrconfigid=bytes(48))},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/another-profile",
        "A decision under another profile than the one that is bound.",
        {"members:inference": put(pol__dig="sha384:" + "1" * 96)},
        {"pol.bound": "pol.unbound"},
        not_made=("bundle.objects",),
    ),
    one(
        "platform/profile-bound-by-gateway-only",
        "A decision that says that nothing but the gateway binds its profile.",
        {"members:inference": put(pol__bind="gateway-only")},
        {"pol.bound": "pol.unbound"},
    ),
    one(
        "platform/debug",
        "A TD that its host may read.",
        {"body:session": _body(td_attributes=bytes.fromhex("0100001000000000"))},
        _appraisal("appraisal.debug"),
    ),
    one(
        "platform/migratable",
        "A TD that may be moved.",
        {"body:session": _body(td_attributes=bytes.fromhex("0000003000000000"))},
        _appraisal("appraisal.td_attributes"),
    ),
    one(
        "platform/xfam",
        "Another set of processor features than the reference.",
        {"body:session": _body(xfam=bytes.fromhex("e700060000000000"))},
        _appraisal("appraisal.xfam"),
    ),
    one(
        "platform/mrtd",
        "Another initial image.",
        {"body:session": _body(mrtd=seeded("another image", 48))},
        _appraisal("appraisal.image"),
    ),
    one(
        "platform/rtmr",
        "Another kernel than any that is accepted.",
        {"body:session": _rtmr(1)},
        _appraisal("appraisal.image"),
    ),
    one(
        "platform/event-log",
        "An event log that does not replay to the registers.",
        {"eventlog:session": _payload},
        _appraisal("eventlog.replay"),
    ),
    one(
        "platform/event-payload",
        "An event that names another profile file, extended as it is logged.",
        {"events:session": _payload},
        _appraisal("appraisal.rtmr3"),
    ),
    one(
        "platform/event-order",
        "The session's events in another order.",
        {"events:session": _reversed},
        _appraisal("appraisal.rtmr3"),
    ),
    one(
        "platform/event-after-the-barrier",
        "A second activation after the barrier.",
        {"events:session": _event("affiant-activate")},
        _appraisal("appraisal.rtmr3"),
    ),
    one(
        "platform/event-of-gateway",
        "A gateway that extends RTMR3.",
        {"events:gateway": _event("affiant-ready")},
        _appraisal("appraisal.rtmr3"),
    ),
    one(
        "platform/module-signer",
        "A TDX module that somebody else has signed.",
        {"body:session": _body(mrsignerseam=seeded("a signer", 48))},
        _appraisal("tdx_module.mismatch"),
    ),
    _platform(
        "module-unknown",
        "A TDX module of a version that TCB Info does not list.",
        "tdx_module.mismatch",
        module_id="TDX_02",
    ),
    one(
        "platform/quote-signature",
        "One bit of the quote's signature is another.",
        {"quote:session": _flip(48 + 584 + 4 + 10)},
        _appraisal("quote.signature"),
    ),
    one(
        "platform/quote-key",
        "The quote is signed by another key than the one that it carries.",
        {"platform:session": lambda platform: replace(platform, quote_signed_by="a stranger")},
        _appraisal("quote.signature"),
    ),
    one(
        "platform/sgx-quote",
        "A quote of an enclave where one of a TD belongs.",
        {"platform:session": lambda platform: replace(platform, tee_type=0)},
        {"key.bound": "quote.not_tdx", "pol.bound": "quote.not_tdx"},
    ),
    one(
        "platform/quote-version",
        "A quote of a version that there is not.",
        {"platform:session": lambda platform: replace(platform, version=6)},
        {"key.bound": "quote.unsupported", "pol.bound": "quote.unsupported"},
    ),
    one(
        "platform/quote-cut",
        "A quote without its last hundred bytes.",
        {"quote:session": lambda data: data[:-100]},
        {"key.bound": "quote.malformed", "pol.bound": "quote.malformed"},
    ),
    _platform(
        "qe-signature",
        "The QE report is not signed by the PCK key.",
        "qe.report_signature",
        qe_signed_by="a stranger",
    ),
    _platform(
        "qe-binding",
        "The QE report does not bind the attestation key.",
        "qe.binding",
        qe_report_data=bytes(64),
    ),
    _platform(
        "qe-signer",
        "Another enclave than the quoting enclave.",
        "qe.identity",
        qe_mrsigner=seeded("a signer", 32),
    ),
    _platform(
        "qe-debug",
        "A quoting enclave that may be debugged.",
        "qe.identity",
        qe_attributes=bytes((0x13,)) + bytes(15),
    ),
    _platform(
        "pck-issuer",
        "A PCK certificate that the authority did not sign.",
        "pck.chain",
        pck_issued_by="a stranger",
    ),
    _platform("pck-revoked", "The PCK certificate is revoked.", "cert.revoked", revoked=("pck",)),
    _platform("authority-revoked", "The PCK authority is revoked.", "cert.revoked", revoked=("ca",)),
    _platform("tcb-signer-revoked", "The signer of TCB Info is revoked.", "cert.revoked", revoked=("tcb",)),
    _platform(
        "crl-signature",
        "The root's revocation list is not signed by the root.",
        "crl.signature",
        root_crl_signed_by="a stranger",
    ),
    _platform(
        "crl-stale",
        "A revocation list that had ended at the instant judged at.",
        "crl.expired",
        crl_until=START,
    ),
    _platform(
        "crl-of-another-authority",
        "A revocation list of another authority.",
        "crl.issuer",
        pck_crl_of="processor",
    ),
    _platform(
        "tcb-forged",
        "TCB Info whose text was changed after it was signed.",
        "collateral.signature",
        tcb_forged=True,
    ),
    _platform(
        "tcb-signed-by-pck",
        "TCB Info signed by a PCK key, with its true chain.",
        "collateral.issuer",
        tcb_signed_by="pck",
    ),
    _platform(
        "tcb-expired",
        "TCB Info that had ended at the instant judged at.",
        "collateral.expired",
        tcb_next_update=START,
    ),
    _platform(
        "tcb-of-another-platform",
        "Collateral of another kind of platform.",
        "tcb.mismatch",
        tcb_fmspc=b"OTHERS",
    ),
    _platform(
        "tcb-out-of-date",
        "A platform that is out of date, where only UpToDate is accepted.",
        "appraisal.tcb_status",
        tcb_status="OutOfDate",
    ),
    _platform("tcb-revoked", "A platform whose TCB level is revoked.", "tcb.revoked", tcb_status="Revoked"),
    _platform(
        "tcb-level-not-reached",
        "A platform that reaches only a level that is out of date.",
        "appraisal.tcb_status",
        level_pce_svn=14,
    ),
    _platform(
        "tcb-one-component-lower",
        "One component is lower than the level's, an earlier one higher.",
        "appraisal.tcb_status",
        machine=Machine(components=(4, *Machine().components[1:7], 4, *bytes(8))),
        level_components=Machine().components,
    ),
    one(
        "platform/evaluation-number",
        "Collateral of an older evaluation than the reference values demand.",
        None,
        {"conf.accepted": "conf.not_accepted", "tee.appraisal": "appraisal.evaluation_number"},
        trust="trust-newer-evaluation.json",
    ),
    one(
        "platform/collateral-of-another-time",
        "Judged at an instant that the archived collateral does not cover.",
        None,
        _appraisal("crl.expired"),
        at="2027-01-21T12:30:00Z",
    ),
    one(
        "platform/simulated-root-for-hardware",
        "The trust file accepts genuine hardware alone.",
        None,
        _appraisal("root.untrusted"),
        trust="trust-other-root.json",
    ),
    one(
        "platform/class-claimed",
        "Configuration, manifest, keysets and records say hardware; the root does not.",
        {"cls": lambda _: "hardware", "document:session-ear": _simulated},
        {"tee.class": "tee.class_mismatch", "conf.accepted": "conf.not_accepted"},
    ),
    one(
        "platform/configuration-not-accepted",
        "A configuration that the trust file does not accept.",
        None,
        {"conf.accepted": "conf.not_accepted"},
        trust="trust-other-configuration.json",
    ),
    one(
        "platform/configuration-revoked",
        "A configuration that the trust file accepted until one second before.",
        None,
        {"conf.accepted": "conf.not_accepted"},
        trust="trust-configuration-revoked.json",
    ),
    one(
        "platform/reference-revoked",
        "Measurements that the trust file accepted until one second before.",
        None,
        {**_appraisal("trust.not_accepted"), "conf.accepted": "conf.not_accepted"},
        trust="trust-reference-revoked.json",
    ),
    one(
        "platform/profile-not-accepted",
        "A profile that the trust file does not accept.",
        None,
        {"pol.accepted": "pol.not_accepted"},
        trust="trust-other-profile.json",
    ),
    one(
        "platform/rootfs-not-accepted",
        "A root file system that the trust file does not accept.",
        None,
        {"rfs.accepted": "rfs.not_accepted"},
        trust="trust-other-rootfs.json",
    ),
    one(
        "platform/rootfs-claimed",
        "The start names another root file system than the manifest.",
        {"members:start": put(rfs=_OTHER)},
        {"rfs.accepted": "rfs.not_accepted"},
    ),
    one(
        "platform/not-isolated",
        "An agent that nothing isolated.",
        {"document:session-activation": put(iso="none")},
        {"iso.floor": "iso.too_weak"},
    ),
    one(
        "platform/below-the-manifests-floor",
        "Isolated by namespaces, where the manifest demands a kernel of its own.",
        {"document:session-activation": put(iso="bwrap-landlock")},
        {"iso.floor": "iso.too_weak"},
    ),
    one(
        "platform/below-the-readers-floor",
        "Isolated as the manifest demands, and less than the trust file does.",
        {
            "document:session-activation": put(iso="bwrap-landlock"),
            "document:session-manifest": put(isolation_floor="namespace"),
        },
        {"iso.floor": "iso.too_weak"},
        trust="trust-strict-floor.json",
    ),
    one(
        "platform/release-claimed",
        "The start names a newer release of gVisor than was activated.",
        {
            "document:session-activation": put(rel="20240729.0"),
            "members:start": put(rel="20260101.0"),
        },
        {"iso.floor": "iso.too_weak"},
        trust="trust-releases.json",
    ),
    one(
        "platform/release-left-out",
        "The start leaves out the release that was activated.",
        {"document:session-activation": put(rel="20240729.0"), "members:start": take("rel")},
        {"iso.floor": "iso.too_weak"},
    ),
    one(
        "platform/isolation-claimed",
        "A record that names a better isolation than the start.",
        {"members:inference": put(agt__iso="vm")},
        {"iso.floor": "iso.too_weak"},
    ),
    one(
        "platform/isolation-claimed-everywhere",
        "The start and every record name a better isolation than was activated.",
        {"before:start": _called_a_machine},
        {"iso.floor": "iso.too_weak"},
    ),
)
