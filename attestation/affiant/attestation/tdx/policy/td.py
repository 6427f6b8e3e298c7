"""Decides on the TD: its attributes, service TD, features, image and TDX module (points 38 to 40)."""

from __future__ import annotations

from collections.abc import Iterator

from affiant.attestation.tdx.appraise.appraisal import (
    measured_image,
    other_image,
    other_td_attributes,
    other_xfam,
)
from affiant.attestation.tdx.policy.node_outcomes import (
    Finding,
    UsedException,
    accepting,
    excepting,
    first_end,
    used_exception,
)
from affiant.attestation.tdx.policy.settings import (
    AcceptedImage,
    AppraisalPolicy,
    AttributeException,
    AttributeExceptionName,
    counting,
)
from affiant.attestation.tdx.quote.attributes import (
    appraise_forbidden_bits,
    appraise_xfam_masks,
    has_sept_ve_disable,
    has_service_td,
    with_sept_ve_disable,
)
from affiant.attestation.tdx.quote.errors import AppraisalRefused
from affiant.attestation.tdx.verify.verify import VerifiedQuote

__all__ = ["accepted_images", "image", "service_td", "td_attributes", "tdx_module", "xfam"]


def accepted_images(verified: VerifiedQuote, settings: AppraisalPolicy) -> tuple[AcceptedImage, ...]:
    """The entries whose four measurements the TD has, and that count now."""
    return counting(_measured(verified, settings), verified.judged_at)


def _measured(verified: VerifiedQuote, settings: AppraisalPolicy) -> Iterator[AcceptedImage]:
    measured = measured_image(verified.quote.body)
    return (image for image in settings.images if image.measurement == measured)


def td_attributes(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """38: bits that nothing can except, then SEPT_VE_DISABLE or its exception, then the exact value."""
    body, at = verified.quote.body, verified.judged_at
    appraise_forbidden_bits(body)
    found = body.td_attributes
    exceptions: tuple[UsedException, ...] = ()
    if not has_sept_ve_disable(body):
        refusal = AppraisalRefused(
            "TD_ATTRIBUTES lacks SEPT_VE_DISABLE (28)",
            found=found.hex(),
            hint="Behind Azure's paravisor: the exception `azure-paravisor`, for that image.",
            code="appraisal.td_attributes",
        )
        name = AttributeExceptionName.AZURE_PARAVISOR
        used = excepting(_exceptions(verified, settings, name), at, refusal, str(name))
        found, exceptions = with_sept_ve_disable(found), (used_exception(str(name), used),)
    accepted = accepting(
        (value for value in settings.td_attributes if value.value == found),
        at,
        other_td_attributes(body, (value.value for value in settings.td_attributes)),
    )
    detail = "TD_ATTRIBUTES are exactly an accepted value"
    if exceptions:
        detail += ", but for SEPT_VE_DISABLE"
    return Finding(
        detail=detail,
        exceptions=exceptions,
        until=first_end((accepted.end, *(used.until for used in exceptions))),
    )


def service_td(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """38: no service TD is bound, or exactly one that is excepted."""
    body = verified.quote.body
    if not has_service_td(body):
        said = (
            "no service TD is bound" if body.mrservicetd is not None else "a TD 1.0 body has no MRSERVICETD"
        )
        return Finding(detail=said)
    refusal = AppraisalRefused(
        "a service TD is bound to this TD", found=(body.mrservicetd or b"").hex(), code="appraisal.service_td"
    )
    name = AttributeExceptionName.SERVICE_TD
    entries = [
        exception
        for exception in _exceptions(verified, settings, name)
        if exception.mrservicetd == body.mrservicetd
    ]
    used = used_exception(str(name), excepting(entries, verified.judged_at, refusal, str(name)))
    return Finding(detail="the bound service TD is an accepted one", exceptions=(used,), until=used.until)


def _exceptions(
    verified: VerifiedQuote, settings: AppraisalPolicy, name: AttributeExceptionName
) -> list[AttributeException]:
    """The exceptions of this name for an image that the TD runs."""
    running = {image.name for image in accepted_images(verified, settings)}
    return [
        exception
        for exception in settings.exceptions
        if exception.name is name and running & set(exception.images)
    ]


def xfam(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    """39: the fixed masks, and the exact value where it is limited."""
    body = verified.quote.body
    appraise_xfam_masks(body)
    if settings.xfam is None:
        return Finding(detail="within its fixed masks; the exact value may be any", limited=False)
    accepted = accepting(
        (value for value in settings.xfam if value.value == body.xfam),
        verified.judged_at,
        other_xfam(body, (value.value for value in settings.xfam)),
    )
    return Finding(detail="XFAM is exactly an accepted value", until=accepted.end)


def image(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    refusal = other_image(verified.quote.body, settings.image_names)
    image = accepting(_measured(verified, settings), verified.judged_at, refusal)
    names = " or ".join(map(str, accepted_images(verified, settings)))
    return Finding(detail=f"MRTD and RTMR0-2 are those of {names}", until=image.end)


def tdx_module(verified: VerifiedQuote, settings: AppraisalPolicy) -> Finding:
    if settings.mrseam is None:
        return Finding(detail="any TDX module that Intel signed and TCB Info lists", limited=False)
    mrseam = verified.quote.body.mrseam
    accepted = accepting(
        (value for value in settings.mrseam if value.value == mrseam),
        verified.judged_at,
        AppraisalRefused("MRSEAM is not on the list", found=mrseam.hex(), code="appraisal.tdx_module"),
    )
    return Finding(detail="MRSEAM is on the list", until=accepted.end)
