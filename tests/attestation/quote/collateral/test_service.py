"""The questions: Intel's paths and parameters, over https alone."""

from __future__ import annotations

import pytest

from affiant.attestation.quote.collateral.errors import SettingsInvalid
from affiant.attestation.quote.collateral.service import INTEL_PCS, Service, evaluation_questions, questions
from affiant.attestation.quote.collateral.wanted import EARLY, STANDARD, Authority, Evaluation, Platform

PLATFORM = Platform.named("90C06F000000", Authority.PLATFORM)


def urls(service: Service, *arguments: object) -> list[str]:
    return [question.url for question in questions(service, *arguments)]  # type: ignore[arg-type]


def test_intels_service_is_asked_by_its_documented_paths() -> None:
    assert urls(INTEL_PCS, PLATFORM) == [
        "https://api.trustedservices.intel.com/tdx/certification/v4/tcb?fmspc=90c06f000000",
        "https://api.trustedservices.intel.com/tdx/certification/v4/qe/identity",
        "https://api.trustedservices.intel.com/sgx/certification/v4/pckcrl?ca=platform&encoding=der",
        "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der",
    ]


def test_the_list_of_evaluations_names_no_platform() -> None:
    assert [question.url for question in evaluation_questions(INTEL_PCS)] == [
        "https://api.trustedservices.intel.com/tdx/certification/v4/tcbevaluationdatanumbers",
        "https://certificates.trustedservices.intel.com/IntelSGXRootCA.der",
    ]


def test_each_authority_has_its_own_list() -> None:
    processor = Platform(PLATFORM.fmspc, Authority.PROCESSOR)
    assert urls(INTEL_PCS, processor)[2].endswith("pckcrl?ca=processor&encoding=der")


def test_both_signed_documents_are_asked_for_in_the_same_edition() -> None:
    assert [url.partition("?")[2] for url in urls(INTEL_PCS, PLATFORM, EARLY)][:2] == [
        "fmspc=90c06f000000&update=early",
        "update=early",
    ]
    assert [url.partition("?")[2] for url in urls(INTEL_PCS, PLATFORM, Evaluation(18))][:2] == [
        "fmspc=90c06f000000&tcbEvaluationDataNumber=18",
        "tcbEvaluationDataNumber=18",
    ]
    assert urls(INTEL_PCS, PLATFORM, STANDARD) == urls(INTEL_PCS, PLATFORM)


@pytest.mark.parametrize(
    "base",
    [
        "https://pccs.example:8081",
        "https://pccs.example:8081/",
        "https://pccs.example:8081/sgx/certification/v4/",
        "https://pccs.example:8081/tdx/certification/v4",
    ],
)
def test_a_pccs_answers_everything_itself(base: str) -> None:
    assert urls(Service.pccs(base), PLATFORM) == [
        "https://pccs.example:8081/tdx/certification/v4/tcb?fmspc=90c06f000000",
        "https://pccs.example:8081/tdx/certification/v4/qe/identity",
        "https://pccs.example:8081/sgx/certification/v4/pckcrl?ca=platform&encoding=der",
        "https://pccs.example:8081/sgx/certification/v4/rootcacrl",
    ]


@pytest.mark.parametrize(
    "base", ["https://[::1]:8081", "https://mirror.example/intel/pcs", "https://127.0.0.1"]
)
def test_a_prefix_and_literal_addresses_are_kept(base: str) -> None:
    assert urls(Service.pccs(base), PLATFORM)[1] == f"{base}/tdx/certification/v4/qe/identity"


@pytest.mark.parametrize(
    "base",
    [
        "http://pccs.example",
        "pccs.example",
        "https://",
        "https://user:password@pccs.example",
        "https://pccs.example?x=1",
        "https://pccs.example#x",
        "https://pccs.example/a b",
        "https://pccs.example/%2e%2e",
        "https://pccs.example\\@evil.example",
        "https://pccs.example:99999",
        "https://pccs.example:",
        "https://-x",
        "file:///etc/passwd",
        "https://" + "a" * 2000,
    ],
)
def test_an_address_that_could_mean_something_else_is_refused(base: str) -> None:
    with pytest.raises(SettingsInvalid) as refused:
        Service.pccs(base)
    assert refused.value.code == "collateral.settings"


@pytest.mark.parametrize(
    "text", ["", "90c06f", "90c06f00000", "90c06f0000zz", "90c06f000000\n", "90 c06f00000"]
)
def test_an_fmspc_is_twelve_hexadecimal_digits(text: str) -> None:
    with pytest.raises(SettingsInvalid):
        Platform.named(text, Authority.PLATFORM)


@pytest.mark.parametrize("number", [0, -1, 65536])
def test_an_evaluation_number_has_a_range(number: int) -> None:
    with pytest.raises(SettingsInvalid):
        Evaluation(number)
