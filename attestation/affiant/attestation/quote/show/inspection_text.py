"""Formats an inspection document as text that a person can read from top to bottom."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from affiant.attestation.tdx.pki.roots import ROOT_COMMON_NAME
from affiant.attestation.verdict.lines import field, heading, hex_value, prose

__all__ = ["render_inspection"]

_Document = Mapping[str, Any]

_MEANINGS: Final = (
    ("mrtd", "MRTD", "initial memory of the TD: the virtual firmware; measured by the TDX module"),
    ("rtmr0", "RTMR0", "firmware configuration: TD shape, ACPI tables, Secure Boot variables"),
    ("rtmr1", "RTMR1", "boot loader or kernel, as the firmware loaded it"),
    ("rtmr2", "RTMR2", "kernel command line and initial file system"),
    ("rtmr3", "RTMR3", "whatever software in the TD extended; all zero: nothing"),
    ("mrconfigid", "MRCONFIGID", "chosen by the host at launch, fixed from then on; all zero: unbound"),
    ("mrowner", "MROWNER", "chosen by the host at launch"),
    ("mrownerconfig", "MROWNERCONFIG", "chosen by the host at launch"),
    ("report_data", "REPORTDATA", "chosen by software in the TD for this very quote: keys and nonce"),
    ("mrseam", "MRSEAM", "the TDX module that ran"),
    ("mrsignerseam", "MRSIGNERSEAM", "who signed it; all zero: Intel"),
    ("seam_attributes", "SEAMATTRIBUTES", "attributes of the TDX module"),
    ("mrservicetd", "MRSERVICETD", "service TDs that are bound; all zero: none"),
)


def render_inspection(document: _Document) -> str:
    """The whole text, with a final newline."""
    return "\n".join(_lines(document)) + "\n"


def _lines(document: _Document) -> Iterator[str]:
    header = document["header"]
    yield f"TDX quote, version {header['version']}, {header['body']} body. NOTHING HERE IS VERIFIED: these are claims."
    yield from _file(document["file"])
    yield from _header(header)
    yield from _configuration(document["configuration"])
    yield from _body(document["body"])
    yield from _authentication(document["authentication"])
    yield from _certification(document["certification"])


def _file(file: _Document) -> Iterator[str]:
    yield from heading("FILE")
    yield field("spelled", file["encoding"])
    yield field("quote", file["quote_digest"])
    if file["file_digest"] != file["quote_digest"]:
        yield field("file", file["file_digest"])
    yield field("bytes", f"{file['bytes']}, of which {file['signed_bytes']} are signed")
    trailing = file["trailing_bytes"]
    if trailing:
        kind = "all zero" if file["trailing_all_zero"] else "NOT all zero"
        yield field("trailing", f"{trailing} bytes after the quote, {kind}: unsigned padding, never read")
    else:
        yield field("trailing", "none")


def _header(header: _Document) -> Iterator[str]:
    yield from heading("HEADER")
    yield field("version", f"{header['version']}, body type {header['body_type']} ({header['body']})")
    yield field("TEE", f"0x{header['tee_type']:x} ({header['tee']})")
    yield field("attestation key", f"type {header['attestation_key_type']} ({header['attestation_key']})")
    yield field("QE vendor", f"{header['qe_vendor_id']} ({header['qe_vendor']})")
    yield field("user data", hex_value(header["user_data"]))


def _configuration(configuration: _Document) -> Iterator[str]:
    yield from heading("TD CONFIGURATION, set by the host at launch and enforced by the TDX module")
    for name, key in (("TD_ATTRIBUTES", "td_attributes"), ("XFAM", "xfam")):
        names = ", ".join(configuration[f"{key}_set"]) or "none set"
        yield from prose(name, f"{configuration[key]}  {names}")
    if configuration["objection"] is None:
        yield field("fixed rules", "no objection")
    else:
        objection = configuration["objection"]
        yield from prose("fixed rules", f"WOULD BE REFUSED: {objection['message']} [{objection['code']}]")


def _body(body: _Document) -> Iterator[str]:
    yield from heading("REGISTERS")
    for key, name, meaning in _MEANINGS:
        if key in body:
            yield field(name, meaning)
            yield field("", hex_value(body[key]))
    yield from heading("TDX MODULE LEVEL")
    yield field("TEE_TCB_SVN", body["tee_tcb_svn"])
    yield field(
        "",
        f"module version {body['module_version']}, SVN {body['module_svn']}; "
        f"SEAM loader SVN {body['seam_loader_svn']}",
    )
    if "tee_tcb_svn2" in body:
        yield field("TEE_TCB_SVN2", f"{body['tee_tcb_svn2']}  now; the one above: at the TD's launch")
    if "extension" in body:
        yield from heading("TD 1.5 EXTENSION, opaque to every check here")
        for name, value in body["extension"].items():
            yield f"  {name:<32}{hex_value(value)}"


def _authentication(authentication: _Document) -> Iterator[str]:
    report = authentication["qe_report"]
    yield from heading("QUOTING ENCLAVE")
    yield field("MRSIGNER", report["mrsigner"])
    yield field("MRENCLAVE", report["mrenclave"])
    yield field("ISVPRODID, ISVSVN", f"{report['isv_prod_id']}, {report['isv_svn']}")
    debug = "  DEBUG ENCLAVE: its key is not secret" if report["debug"] else ""
    yield field("ATTRIBUTES", report["attributes"] + debug)
    yield field("MISCSELECT", report["misc_select"])
    yield field("CPUSVN", report["cpu_svn"])
    yield field("report data", hex_value(report["report_data"]))
    named = "yes" if report["names_attestation_key"] else "NO: it is another key's"
    yield field("names this key", named)
    yield field("auth data", hex_value(authentication["qe_auth_data"]))
    yield from heading("SIGNATURES, not checked here")
    yield field("attestation key", hex_value(authentication["attestation_key"]))
    yield field("over the quote", hex_value(authentication["signature"]))
    yield field("over the QE report", hex_value(authentication["qe_report_signature"]))


def _certification(certification: _Document) -> Iterator[str]:
    yield from heading("CERTIFICATION DATA")
    yield field("type", f"{certification['type']} ({certification['name']}), {certification['bytes']} bytes")
    if (platform := certification.get("platform")) is not None:
        encrypted = " (encrypted for Intel)" if platform["ppid_encrypted"] else ""
        yield field("PPID", platform["ppid"] + encrypted)
        yield field("CPUSVN, PCESVN", f"{platform['cpu_svn']}, {platform['pce_svn']}")
        yield field("PCEID", platform["pceid"])
    for number, certificate in enumerate(certification.get("certificates", ())):
        yield from _certificate(number, certificate)
    if (pck := certification.get("pck")) is not None:
        yield from _pck(pck)
    if (refused := certification.get("refused")) is not None:
        yield from prose("CANNOT BE READ", f"{refused['message']} [{refused['code']}]")
    if certification["type"] != 5:
        yield from prose(
            "note", "a quote without a PCK certificate chain cannot be verified by what is at hand"
        )


def _certificate(number: int, certificate: _Document) -> Iterator[str]:
    yield from heading(f"CERTIFICATE {number}: {certificate['common_name']!r}")
    yield field("subject", certificate["subject"])
    yield field("issuer", certificate["issuer"])
    yield field("serial", certificate["serial"])
    yield field("valid", f"{certificate['not_before']} to {certificate['not_after']}")
    yield field("certificate", certificate["digest"])
    yield field("public key", certificate["key_digest"])
    if certificate["key_is_intel_root"]:
        yield field("", "the public key of the Intel SGX Root CA, as compiled in")
    elif certificate["common_name"] == ROOT_COMMON_NAME:
        yield field("", "NOT Intel's root key, whatever its name says: a simulated platform, or a forgery")


def _pck(pck: _Document) -> Iterator[str]:
    yield from heading("PLATFORM, as its PCK certificate says (SGX extension)")
    yield field("FMSPC", f"{pck['fmspc']}  the kind of platform: what collateral is fetched by")
    yield field("PPID", f"{pck['ppid']}  identifies this very platform")
    yield field("platform instance", pck["platform_instance_id"] or "not in the certificate")
    yield field("PCEID, PCESVN", f"{pck['pceid']}, {pck['pce_svn']}")
    yield field("CPUSVN", pck["cpu_svn"])
    yield field("TCB components", _components(pck["components"]))
    yield field("SGX type", f"{pck['sgx_type']} ({pck['sgx_type_name']})")
    for name, key in (
        ("dynamic platform", "dynamic_platform"),
        ("cached keys", "cached_keys"),
        ("SMT enabled", "smt_enabled"),
    ):
        yield field(name, {True: "yes", False: "no", None: "not in the certificate"}[pck[key]])


def _components(components: Sequence[int]) -> str:
    """The sixteen component SVNs, numbered as TCB Info numbers them."""
    return " ".join(f"{number}:{svn}" for number, svn in enumerate(components, start=1))
