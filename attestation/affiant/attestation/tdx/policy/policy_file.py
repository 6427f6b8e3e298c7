"""Reads ``affiant-appraisal/1``, an appraisal policy as a person writes it -> :class:`AppraisalPolicy`.

Strict YAML (``strict_yaml``); docs/formats/appraisal_policy.md is the format. Every error
names file, line and column, and the nearest known word.

* A list stands with at least one entry, or not at all: empty, it would accept nothing or everything.
* What is absent has its strict default: ``UpToDate`` alone, no grace, no exceptions, SEPT_VE_DISABLE and no other
  attribute. Where there is no strict default the member is required, and ``any`` has to be written.
* An entry is a plain value, or a mapping with ``value`` (or members of its own) and ``from``, ``until``,
  ``revoked_at``, ``reason``.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable
from typing import Final

from affiant.attestation.encoding.strict_yaml import PLAIN, Node, ScalarNode, YAMLRefused, compose
from affiant.attestation.tdx.appraise.reference import ImageMeasurement
from affiant.attestation.tdx.pki.roots import INTEL_SGX_ROOT_CA_SPKI, EvidenceClass
from affiant.attestation.tdx.policy.nodes import (
    TIMES,
    NodeMap,
    any_or_list,
    hexadecimal_of,
    list_of,
    name_of,
    plain_or_entry,
    refused_value,
    suggestion,
    text_of,
    word_of,
)
from affiant.attestation.tdx.policy.settings import (
    AcceptedImage,
    AcceptedMachine,
    AcceptedRoot,
    AcceptedStatus,
    AcceptedValue,
    AdvisoryException,
    AppraisalPolicy,
    AttributeException,
    AttributeExceptionName,
    DemandedFlags,
    Grace,
)
from affiant.attestation.tdx.tcb.tcb_status import TCBStatus
from affiant.errors import MalformedError

__all__ = ["APPRAISAL_POLICY_TYPE", "parse_appraisal_policy"]

APPRAISAL_POLICY_TYPE: Final = "affiant-appraisal/1"
_MAX_GRACE_DAYS: Final = 365
_INTEL: Final = hashlib.sha256(INTEL_SGX_ROOT_CA_SPKI).digest()
_SEPT_VE_DISABLE_ALONE: Final = bytes.fromhex("0000001000000000")
_ADVISORY: Final = re.compile(r"INTEL-SA-[0-9]{5}\Z")
_ROOT: Final = re.compile(r"sha256:[0-9a-f]{64}\Z")
_GRACEABLE: Final = (
    TCBStatus.OUT_OF_DATE,
    TCBStatus.OUT_OF_DATE_CONFIGURATION_NEEDED,
    TCBStatus.TD_RELAUNCH_ADVISED,
    TCBStatus.TD_RELAUNCH_ADVISED_CONFIGURATION_NEEDED,
)
"""Only these have a date from which an update was due."""
_REGISTERS: Final = ("mrtd", "rtmr0", "rtmr1", "rtmr2")


def parse_appraisal_policy(data: bytes, *, source: str) -> AppraisalPolicy:
    """The policy in ``data``; ``source`` names the file in errors.

    Raises:
        YAMLRefused: not the strict part of YAML.
        ``appraisal_policy.key``, ``.value``, ``.empty``: another form; each with its place.
    """
    node = compose(data, source=source, dialect=PLAIN)
    if node is None:
        raise YAMLRefused("the file says nothing", where=source)
    top = NodeMap(node)
    if top.text("typ") != APPRAISAL_POLICY_TYPE:
        raise refused_value(top.nodes["typ"], "a policy of another form", expected=APPRAISAL_POLICY_TYPE)
    top.only(
        required=("typ", "class", "images", "tcb", "xfam", "machines", "pck_flags"),
        optional=("roots", "td_attributes", "exceptions", "mrseam"),
    )
    tcb = NodeMap(top.nodes["tcb"])
    tcb.only(required=("minimum_evaluation",), optional=("statuses", "grace", "advisories"))
    evidence_class = top.word("class", {str(each): each for each in EvidenceClass})
    images = list_of(top.nodes["images"], _image)
    policy = AppraisalPolicy(
        raw=data,
        evidence_class=evidence_class,
        roots=_roots(top, evidence_class),
        images=images,
        statuses=tcb.entries("statuses", _status)
        or (AcceptedStatus(where=str(tcb.mark), status=TCBStatus.UP_TO_DATE),),
        minimum_evaluation=tcb.number("minimum_evaluation", maximum=0xFFFF),
        grace=tcb.entries("grace", _grace),
        advisories=tcb.entries("advisories", _advisory),
        td_attributes=top.entries("td_attributes", _value_of(8))
        or (AcceptedValue(where=str(top.mark), value=_SEPT_VE_DISABLE_ALONE),),
        xfam=any_or_list(top.nodes["xfam"], _value_of(8)),
        exceptions=top.entries("exceptions", _exception),
        machines=any_or_list(top.nodes["machines"], _machine),
        flags=_flags(top.nodes["pck_flags"]),
        mrseam=top.entries("mrseam", _value_of(48)) or None,
    )
    _require_known_images(policy)
    return policy


def _roots(top: NodeMap, evidence_class: EvidenceClass) -> tuple[AcceptedRoot, ...]:
    """Hardware is exactly the compiled-in root; anything else is simulated, whatever a file calls it."""
    roots = top.entries("roots", _root)
    if evidence_class is EvidenceClass.HARDWARE:
        if any(root.digest != _INTEL for root in roots):
            raise refused_value(
                top.nodes["roots"], "hardware has Intel's root alone", expected="no roots, or intel"
            )
        return roots or (AcceptedRoot(where=str(top.mark), digest=_INTEL),)
    if not roots:
        raise MalformedError(
            "a simulated platform's root has to be named: `roots`",
            where=str(top.mark),
            code="appraisal_policy.key",
        )
    if any(root.digest == _INTEL for root in roots):
        raise refused_value(
            top.nodes["roots"], "Intel's root is no simulated one", expected="class: hardware"
        )
    return roots


def _root(node: Node) -> AcceptedRoot:
    def read(value: Node) -> bytes:
        text = text_of(value)
        if text == "intel":
            return _INTEL
        if _ROOT.match(text) is None:
            raise refused_value(value, "not a root's name", expected="intel, or sha256:<64 hex>")
        return bytes.fromhex(text.removeprefix("sha256:"))

    digest, times = plain_or_entry(node, read)
    return AcceptedRoot(digest=digest, **times)


def _image(node: Node) -> AcceptedImage:
    entry = NodeMap(node)
    entry.only(required=("name", "shapes", *_REGISTERS), optional=TIMES)
    registers = {name: entry.hexadecimal(name, 48) for name in _REGISTERS}
    return AcceptedImage(
        name=name_of(entry.nodes["name"]),
        shapes=entry.names("shapes"),
        measurement=ImageMeasurement(**registers),
        **entry.times(),
    )


def _status(node: Node) -> AcceptedStatus:
    def read(value: Node) -> TCBStatus:
        status = word_of(value, {each.value: each for each in TCBStatus}, "a TCB status")
        if status is TCBStatus.REVOKED:
            raise refused_value(value, "a revoked TCB can never be accepted", expected="another status")
        return status

    status, times = plain_or_entry(node, read)
    return AcceptedStatus(status=status, **times)


def _grace(node: Node) -> Grace:
    entry = NodeMap(node)
    entry.only(required=("status", "days", "reason"), optional=TIMES)
    return Grace(
        status=entry.word("status", {each.value: each for each in _GRACEABLE}),
        days=entry.number("days", minimum=1, maximum=_MAX_GRACE_DAYS),
        **entry.times(),
    )


def _advisory(node: Node) -> AdvisoryException:
    entry = NodeMap(node)
    entry.only(required=("id", "until", "reason"), optional=TIMES)
    advisory = entry.text("id")
    if _ADVISORY.match(advisory) is None:
        raise refused_value(entry.nodes["id"], "not an advisory", expected="INTEL-SA- and five digits")
    return AdvisoryException(advisory=advisory, **entry.times())


def _exception(node: Node) -> AttributeException:
    entry = NodeMap(node)
    name = entry.word("name", {str(each): each for each in AttributeExceptionName})
    own = ("mrservicetd",) if name is AttributeExceptionName.SERVICE_TD else ()
    entry.only(required=("name", "images", "reason", *own), optional=TIMES)
    mrservicetd = entry.hexadecimal("mrservicetd", 48) if own else None
    if mrservicetd is not None and not any(mrservicetd):
        raise refused_value(entry.nodes["mrservicetd"], "all zero means that no service TD is bound")
    return AttributeException(
        name=name, images=entry.names("images"), mrservicetd=mrservicetd, **entry.times()
    )


def _require_known_images(policy: AppraisalPolicy) -> None:
    for exception in policy.exceptions:
        for name in exception.images:
            if name not in policy.image_names:
                raise MalformedError(
                    f"no image is called {name!r}",
                    where=exception.where,
                    hint=suggestion(name, policy.image_names),
                    code="appraisal_policy.value",
                )
    seen: set[tuple[str, ImageMeasurement]] = set()
    for image in policy.images:
        if (key := (image.name, image.measurement)) in seen:
            raise MalformedError(
                "an image stands twice",
                where=image.where,
                hint="Name all its shapes in one entry.",
                code="appraisal_policy.value",
            )
        seen.add(key)


def _value_of(size: int) -> Callable[[Node], AcceptedValue]:
    def read(node: Node) -> AcceptedValue:
        value, times = plain_or_entry(node, lambda value: hexadecimal_of(value, size))
        return AcceptedValue(value=value, **times)

    return read


def _machine(node: Node) -> AcceptedMachine:
    entry = NodeMap(node)
    entry.only(required=(), optional=("ppid", "fmspc", *TIMES))
    if not entry.nodes.keys() & {"ppid", "fmspc"}:
        raise MalformedError(
            "an entry that names no machine: `ppid`, `fmspc`",
            where=str(entry.mark),
            code="appraisal_policy.key",
        )
    return AcceptedMachine(
        ppid=entry.hexadecimal("ppid", 16) if "ppid" in entry.nodes else None,
        fmspc=entry.hexadecimal("fmspc", 6) if "fmspc" in entry.nodes else None,
        **entry.times(),
    )


def _flags(node: Node) -> DemandedFlags:
    if isinstance(node, ScalarNode):
        word_of(node, {"any": None}, "pck_flags")
        return DemandedFlags(dynamic_platform=None, cached_keys=None, smt=None)
    entry = NodeMap(node)
    names = ("dynamic_platform", "cached_keys", "smt")
    entry.only(required=names, optional=())
    words = {"true": True, "false": False, "any": None}
    values = {name: entry.word(name, words) for name in names}
    return DemandedFlags(**values)
