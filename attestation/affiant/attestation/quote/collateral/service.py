"""Makes the requests for each item of collateral: which address serves which item. It sends none.

Intel's PCS (API v4) and a PCCS, its caching proxy, answer the same paths::

    /tdx/certification/v4/tcb?fmspc=             TCB Info           TCB-Info-Issuer-Chain
    /tdx/certification/v4/qe/identity            QE Identity        SGX-Enclave-Identity-Issuer-Chain
    /sgx/certification/v4/pckcrl?ca=&encoding=   PCK CRL            SGX-PCK-CRL-Issuer-Chain
    /sgx/certification/v4/rootcacrl              root CA CRL        PCCS alone
    /tdx/certification/v4/tcbevaluationdatanumbers                  TCB-Evaluation-Data-Numbers-Issuer-Chain

The root CA CRL of the PCS is a file on Intel's certificate host, the distribution point that the root
certificate names. A question tells the service which kind of platform somebody verifies, and no more.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode, urlsplit

from affiant.attestation.quote.collateral.errors import SettingsInvalid
from affiant.attestation.quote.collateral.wanted import STANDARD, Edition, Evaluation, Platform

__all__ = ["INTEL_PCS", "Question", "Service", "evaluation_questions", "questions"]

_HOST: Final = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?\Z|\[[0-9A-Fa-f:.]+\]\Z")
_PATH: Final = re.compile(r"(?:/[A-Za-z0-9._~-]+)*\Z")
_MAX_URL: Final = 1024


@dataclass(frozen=True, slots=True)
class Question:
    """One GET.

    Args:
        item: the name of the item it is for, as in ``Collateral``.
        title: the same for people.
        url: complete; https.
        chain_headers: names under which the issuer chain may come; empty where there is none.
        limit: bytes that the body may have.
    """

    item: str
    title: str
    url: str
    chain_headers: tuple[str, ...]
    limit: int


@dataclass(frozen=True, slots=True)
class Service:
    """Where to ask.

    Args:
        base: ``https://host[:port][/prefix]``, without the API's own path.
        root_crl: the whole address of the root CA CRL.

    Raises:
        SettingsInvalid: not https, user information, a query, or characters that need encoding.
    """

    base: str
    root_crl: str

    def __post_init__(self) -> None:
        for url in (self.base, self.root_crl):
            _demand_https(url)

    @classmethod
    def pccs(cls, base: str) -> Service:
        """A PCCS at ``base``, which may end in a slash or in the API's own path."""
        plain = re.sub(r"(/(sgx|tdx)/certification/v4)?/*\Z", "", base)
        return cls(plain, f"{plain}/sgx/certification/v4/rootcacrl")


def questions(service: Service, platform: Platform, edition: Edition = STANDARD) -> tuple[Question, ...]:
    """The four questions whose answers hold all seven items."""
    which = _which(edition)
    fmspc = platform.fmspc.hex()
    tdx, sgx = f"{service.base}/tdx/certification/v4", f"{service.base}/sgx/certification/v4"
    return (
        Question(
            "tcb_info",
            "TCB Info",
            f"{tdx}/tcb?{urlencode({'fmspc': fmspc, **which})}",
            ("TCB-Info-Issuer-Chain", "SGX-TCB-Info-Issuer-Chain"),
            512 * 1024,
        ),
        Question(
            "qe_identity",
            "QE Identity",
            f"{tdx}/qe/identity{'?' + urlencode(which) if which else ''}",
            ("SGX-Enclave-Identity-Issuer-Chain",),
            64 * 1024,
        ),
        Question(
            "pck_crl",
            f"PCK CRL ({platform.authority} CA)",
            f"{sgx}/pckcrl?{urlencode({'ca': str(platform.authority), 'encoding': 'der'})}",
            ("SGX-PCK-CRL-Issuer-Chain",),
            512 * 1024,
        ),
        _root_crl(service),
    )


def evaluation_questions(service: Service) -> tuple[Question, Question]:
    """The two questions whose answers hold the list of evaluations and what its signer is checked against."""
    return (
        Question(
            "evaluation_numbers",
            "TCB evaluation data numbers",
            f"{service.base}/tdx/certification/v4/tcbevaluationdatanumbers",
            ("TCB-Evaluation-Data-Numbers-Issuer-Chain",),
            64 * 1024,
        ),
        _root_crl(service),
    )


def _root_crl(service: Service) -> Question:
    return Question("root_ca_crl", "root CA CRL", service.root_crl, (), 512 * 1024)


def _which(edition: Edition) -> Mapping[str, str]:
    """The parameter that chooses an edition; the service's default goes without, as older caches know none."""
    if isinstance(edition, Evaluation):
        return {"tcbEvaluationDataNumber": str(edition.number)}
    return {} if edition is STANDARD else {"update": str(edition)}


def _demand_https(url: str) -> None:
    """An address that means the same to every parser, over TLS."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError as error:
        raise SettingsInvalid("not an address", found=repr(url[:80])) from error
    host = parts.netloc.removesuffix(f":{port}")
    if (
        len(url) > _MAX_URL
        or parts.scheme != "https"
        or _HOST.match(host) is None
        or _PATH.match(parts.path) is None
        or parts.query
        or parts.fragment
        or "?" in url
        or "#" in url
    ):
        raise SettingsInvalid(
            "not the address of a provisioning service",
            expected="https://host[:port][/prefix]",
            found=repr(url[:80]),
            hint="Collateral is fetched over verified TLS alone; --tls-ca accepts a private authority.",
        )


INTEL_PCS: Final = Service(
    "https://api.trustedservices.intel.com",
    "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der",
)
"""Intel's Provisioning Certification Service; no key and no account is needed for these items."""
