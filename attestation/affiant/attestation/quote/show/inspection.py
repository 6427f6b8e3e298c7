"""Describes a quote for a reader: every claim by name, nothing verified.

The document ``affiant-quote-inspection/1``. Binary values are lower-case hexadecimal; every text in it that came
with the quote is hostile and is shown escaped.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from typing import Final

from cryptography import x509

from affiant.attestation.encoding.binary_text import sha256_name
from affiant.attestation.quote.judge.quote_file import QuoteFile
from affiant.attestation.tdx.pki.certificates import Certificate, parse_chain
from affiant.attestation.tdx.pki.pck import PCKExtension, extension_of
from affiant.attestation.tdx.pki.roots import EvidenceClass, evidence_class_of
from affiant.attestation.tdx.quote.attributes import (
    TD_ATTRIBUTE_NAMES,
    XFAM_NAMES,
    appraise_td_configuration,
    names_of_bits,
)
from affiant.attestation.tdx.quote.certification import (
    CertificationType,
    name_certification,
    parse_platform_name,
)
from affiant.attestation.tdx.quote.quote import QuoteAuthentication, TDQuote, TDReport
from affiant.errors import AffiantError

__all__ = ["BODY_NAMES", "SGX_TYPES", "inspect_quote"]

BODY_NAMES: Final[Mapping[int, str]] = {2: "TD 1.0", 3: "TD 1.5", 4: "TD 1.5 extended"}
SGX_TYPES: Final = ("standard", "scalable", "scalable with integrity")


_BODY: Final = (
    *("tee_tcb_svn", "mrseam", "mrsignerseam", "seam_attributes", "mrtd"),
    *("mrconfigid", "mrowner", "mrownerconfig", "report_data"),
)
_QE_REPORT: Final = ("cpu_svn", "misc_select", "attributes", "mrenclave", "mrsigner", "report_data")
_AUTHENTICATION: Final = ("signature", "attestation_key", "qe_report_signature", "qe_auth_data")


def _hexadecimal(part: object, *names: str) -> Mapping[str, str]:
    return {name: getattr(part, name).hex() for name in names}


def inspect_quote(quote: TDQuote, file: QuoteFile) -> Mapping[str, object]:
    """The inspection document of ``quote``, which ``file`` holds."""
    return {
        "typ": "affiant-quote-inspection/1",
        "verified": False,
        "file": {
            "encoding": file.encoding,
            "file_digest": file.file_digest,
            "quote_digest": sha256_name(quote.raw),
            "bytes": len(quote.raw),
            "signed_bytes": len(quote.signed),
            "trailing_bytes": quote.trailing_bytes,
            "trailing_all_zero": not any(quote.raw[len(quote.raw) - quote.trailing_bytes :])
            if quote.trailing_bytes
            else None,
        },
        "header": _header(quote),
        "body": _body(quote.body),
        "configuration": _configuration(quote.body),
        "authentication": _authentication(quote.authentication),
        "certification": _certification(quote.authentication),
    }


def _header(quote: TDQuote) -> Mapping[str, object]:
    header = quote.header
    return {
        "version": header.version,
        "body_type": quote.body_type,
        "body": BODY_NAMES[quote.body_type],
        "tee_type": header.tee_type,
        "tee": "TDX",
        "attestation_key_type": header.attestation_key_type,
        "attestation_key": "ECDSA P-256",
        "qe_vendor_id": header.qe_vendor_id.hex(),
        "qe_vendor": "Intel",
        "user_data": header.user_data.hex(),
    }


def _body(body: TDReport) -> Mapping[str, object]:
    members: dict[str, object] = {
        **_hexadecimal(body, *_BODY),
        "module_svn": body.tee_tcb_svn[0],
        "module_version": body.tee_tcb_svn[1],
        "seam_loader_svn": body.tee_tcb_svn[2],
        **{f"rtmr{number}": value.hex() for number, value in enumerate(body.rtmrs)},
    }
    if body.tee_tcb_svn2 is not None and body.mrservicetd is not None:
        members |= _hexadecimal(body, "tee_tcb_svn2", "mrservicetd")
    if body.extension is not None:
        members["extension"] = _hexadecimal(body.extension, *body.extension.__slots__)
    return members


def _configuration(body: TDReport) -> Mapping[str, object]:
    """TD_ATTRIBUTES and XFAM by name, and what the fixed rules of appraisal would say to them."""
    objection: Mapping[str, object] | None = None
    try:
        appraise_td_configuration(body)
    except AffiantError as refusal:
        objection = refusal.to_json()
    return {
        "td_attributes": body.td_attributes.hex(),
        "td_attributes_set": list(names_of_bits(body.td_attributes, TD_ATTRIBUTE_NAMES)),
        "xfam": body.xfam.hex(),
        "xfam_set": list(names_of_bits(body.xfam, XFAM_NAMES)),
        "objection": objection,
    }


def _authentication(authentication: QuoteAuthentication) -> Mapping[str, object]:
    report = authentication.qe_report
    return {
        **_hexadecimal(authentication, *_AUTHENTICATION),
        "qe_report": {
            **_hexadecimal(report, *_QE_REPORT),
            "debug": bool(report.attributes[0] & 2),
            "isv_prod_id": report.isv_prod_id,
            "isv_svn": report.isv_svn,
            "names_attestation_key": report.report_data == _binding(authentication),
        },
    }


def _binding(authentication: QuoteAuthentication) -> bytes:
    """24: what the enclave's report data must be for this key; a digest compared, no signature."""
    named = authentication.attestation_key + authentication.qe_auth_data
    return hashlib.sha256(named).digest() + bytes(32)


def _certification(authentication: QuoteAuthentication) -> Mapping[str, object]:
    number, data = authentication.certification_type, authentication.certification_data
    members: dict[str, object] = {"type": number, "name": name_certification(number), "bytes": len(data)}
    platform = parse_platform_name(number, data)
    if platform is not None:
        members["platform"] = {
            **_hexadecimal(platform, "ppid", "cpu_svn", "pceid"),
            "ppid_encrypted": number != CertificationType.PLAIN_PPID,
            "pce_svn": platform.pce_svn,
        }
    if number not in (CertificationType.PCK_CERTIFICATE, CertificationType.PCK_CHAIN):
        return members
    try:
        chain = parse_chain(data)
    except AffiantError as refusal:
        members["refused"] = refusal.to_json()
        return members
    members["certificates"] = [_certificate(certificate) for certificate in chain]
    try:
        members["pck"] = _pck(extension_of(chain[0]))
    except AffiantError as refusal:
        members["refused"] = refusal.to_json()
    return members


def _certificate(certificate: Certificate) -> Mapping[str, object]:
    names = x509.load_der_x509_certificate(certificate.der)
    return {
        "common_name": certificate.common_name,
        "subject": _name(lambda: names.subject),
        "issuer": _name(lambda: names.issuer),
        "serial": f"{certificate.serial:x}",
        "not_before": f"{certificate.not_before:%Y-%m-%dT%H:%M:%SZ}",
        "not_after": f"{certificate.not_after:%Y-%m-%dT%H:%M:%SZ}",
        "authority": certificate.is_ca,
        "digest": sha256_name(certificate.der),
        "key_digest": sha256_name(certificate.spki),
        "key_is_intel_root": evidence_class_of(certificate.spki) is EvidenceClass.HARDWARE,
    }


def _name(read: Callable[[], x509.Name]) -> str:
    """The name as RFC 4514 writes it; hostile text. The library parses names late, so that reading one may fail."""
    try:
        return read().rfc4514_string()
    except ValueError:
        return "(a name that has no text form)"


def _pck(extension: PCKExtension) -> Mapping[str, object]:
    instance = extension.platform_instance_id
    return {
        **_hexadecimal(extension, "ppid", "fmspc", "pceid", "cpu_svn"),
        "components": list(extension.components),
        "pce_svn": extension.pce_svn,
        "sgx_type": extension.sgx_type,
        "sgx_type_name": SGX_TYPES[extension.sgx_type],
        "platform_instance_id": None if instance is None else instance.hex(),
        "dynamic_platform": extension.dynamic_platform,
        "cached_keys": extension.cached_keys,
        "smt_enabled": extension.smt_enabled,
    }
