"""Responses: exact bytes out of what the service sends, and a named refusal for everything else."""

from __future__ import annotations

import base64
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.quote.collateral.conftest import NOW, Recorded, Simulated
from tests.attestation.quote.collateral.pcs_server import HEADERS, url_encoded
from tests.properties import thorough

from affiant.attestation.quote.collateral.errors import (
    PlatformUnknown,
    RedirectRefused,
    ResponseRefused,
    ServiceUnavailable,
)
from affiant.attestation.quote.collateral.issuer_header import decode_issuer_chain
from affiant.attestation.quote.collateral.pcs_responses import Answer, Response, read_answer
from affiant.attestation.quote.collateral.service import INTEL_PCS, Question, questions
from affiant.attestation.quote.collateral.wanted import Authority, Platform
from affiant.errors import AffiantError

QUESTIONS = {
    question.item: question for question in questions(INTEL_PCS, Platform(bytes(6), Authority.PLATFORM))
}


def read(item: str, body: bytes, *, status: int = 200, **headers: str) -> Answer:
    pairs = tuple((name.replace("_", "-"), value) for name, value in headers.items())
    return read_answer(QUESTIONS[item], Response(status, pairs, body), now=NOW)


@pytest.fixture(scope="module")
def chain(simulated: Simulated) -> str:
    return url_encoded(simulated.collateral().pck_crl_issuer_chain)


@pytest.mark.parametrize(
    ("item", "body", "header"),
    [
        ("tcb_info", "tcb_info_90c06f000000.json", "tcb_info_90c06f000000_chain.txt"),
        ("qe_identity", "qe_identity.json", "qe_identity_chain.txt"),
        ("pck_crl", "pck_crl_platform.crl", "pck_crl_platform_chain.txt"),
    ],
)
def test_intels_recorded_answers_keep_every_byte(
    recorded: Recorded, item: str, body: str, header: str
) -> None:
    kind = "application/pkix-crl" if item == "pck_crl" else "application/json"
    answer = read(
        item, recorded.body(body), content_type=kind, **{HEADERS[item].upper(): recorded.header(header)}
    )
    assert answer.content == recorded.body(body)
    assert answer.issuer_chain == decode_issuer_chain(recorded.header(header), name=item)


def test_the_root_list_has_no_chain(recorded: Recorded) -> None:
    answer = read("root_ca_crl", recorded.body("root_ca.crl"), content_type="application/x-x509-ca-cert")
    assert answer == Answer("root_ca_crl", recorded.body("root_ca.crl"), None)


def test_a_revocation_list_is_its_der_however_it_is_spelled(simulated: Simulated) -> None:
    der = simulated.collateral().root_ca_crl
    pem = b"-----BEGIN X509 CRL-----\n" + base64.encodebytes(der) + b"-----END X509 CRL-----\n"
    for body in (
        der,
        der.hex().encode(),
        der.hex().upper().encode() + b"\n",
        pem,
        pem.replace(b"\n", b"\r\n"),
    ):
        assert read("root_ca_crl", body, content_type="text/html; charset=utf-8").content == der


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>log in here</html>",
        b"308",
        b"3082zz",
        b"-----BEGIN X509 CRL-----\n!!!!\n-----END X509 CRL-----\n",
        b"-----BEGIN X509 CRL-----\nAAA\n-----END X509 CRL-----\n",
        b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
    ],
)
def test_what_is_no_revocation_list_is_refused(body: bytes) -> None:
    with pytest.raises(ResponseRefused):
        read("root_ca_crl", body, content_type="text/html")


@pytest.mark.parametrize("kind", ["text/html", "text/plain", "application/jsonp", "", None])
def test_signed_json_of_another_type_is_refused(chain: str, kind: str | None) -> None:
    headers = {} if kind is None else {"content_type": kind}
    with pytest.raises(ResponseRefused, match="application/json"):
        read("tcb_info", b"{}", TCB_Info_Issuer_Chain=chain, **headers)


def test_parameters_and_case_of_a_type_do_not_matter(chain: str) -> None:
    answer = read(
        "tcb_info", b"{}", content_type="Application/JSON; charset=utf-8", tcb_info_issuer_chain=chain
    )
    assert answer.content == b"{}"


def test_a_body_that_is_no_object_is_refused(chain: str) -> None:
    with pytest.raises(ResponseRefused, match="no JSON object"):
        read("tcb_info", b"[]", content_type="application/json", tcb_info_issuer_chain=chain)


def test_an_answer_without_its_chain_is_refused() -> None:
    with pytest.raises(ResponseRefused, match="TCB-Info-Issuer-Chain") as refused:
        read("tcb_info", b"{}", content_type="application/json")
    assert refused.value.hint is not None


def test_an_older_services_name_of_the_header_is_read(chain: str) -> None:
    read("tcb_info", b"{}", content_type="application/json", SGX_TCB_Info_Issuer_Chain=chain)


def test_two_names_for_one_chain_must_agree(chain: str, other: Simulated) -> None:
    given_twice = {"tcb_info_issuer_chain": chain, "sgx_tcb_info_issuer_chain": chain}
    read("tcb_info", b"{}", content_type="application/json", **given_twice)
    given_twice["sgx_tcb_info_issuer_chain"] = url_encoded(other.collateral().pck_crl_issuer_chain)
    with pytest.raises(ResponseRefused, match="two different issuer chains"):
        read("tcb_info", b"{}", content_type="application/json", **given_twice)


def test_a_header_that_stands_twice_with_two_values_is_refused() -> None:
    response = Response(200, (("Content-Type", "application/json"), ("content-type", "text/html")), b"{}")
    with pytest.raises(ResponseRefused, match="stands twice"):
        read_answer(QUESTIONS["tcb_info"], response, now=NOW)


def test_an_encoded_body_is_refused(chain: str) -> None:
    kind = {"content_type": "application/json", "tcb_info_issuer_chain": chain}
    with pytest.raises(ResponseRefused, match="encoded"):
        read("tcb_info", b"\x1f\x8b", content_encoding="gzip", **kind)
    read("tcb_info", b"{}", content_encoding="identity", **kind)


@pytest.mark.parametrize("status", [404, 410])
def test_an_unknown_platform_is_named_and_final(status: int) -> None:
    with pytest.raises(PlatformUnknown, match="000000000000") as refused:
        read("tcb_info", b"", status=status)
    assert (refused.value.code, refused.value.retryable) == ("collateral.unknown", False)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_refused_and_named(status: int) -> None:
    with pytest.raises(RedirectRefused, match="evil"):
        read("tcb_info", b"", status=status, location="https://evil.example/tcb")


@pytest.mark.parametrize(
    ("value", "seconds"),
    [
        ("0", 0),
        ("7", 7),
        ("99999999999999999999", 86400),
        ("Mon, 04 May 2026 12:00:30 GMT", 30),
        ("Mon, 04 May 2026 11:00:00 GMT", 0),
        ("soon", None),
        ("-3", None),
        ("\u0663", None),
        ("Mon, 04 May 2026 12:00:30", None),
        ("", None),
        (None, None),
    ],
)
def test_a_service_says_when_to_come_back(value: str | None, seconds: int | None) -> None:
    headers = {} if value is None else {"retry_after": value}
    with pytest.raises(ServiceUnavailable) as refused:
        read("tcb_info", b"", status=503, **headers)
    assert refused.value.retry_after_s == seconds
    assert refused.value.retryable is True


@pytest.mark.parametrize("status", [201, 204, 206, 400, 401, 403, 418])
def test_any_other_status_is_refused(status: int) -> None:
    with pytest.raises(ResponseRefused, match=f"status {status}"):
        read("tcb_info", b"{}", status=status, content_type="application/json")


@thorough(60)
@given(
    item=st.sampled_from(sorted(QUESTIONS)),
    status=st.sampled_from([200, 302, 404, 503]) | st.integers(100, 599),
    headers=st.lists(
        st.tuples(
            st.sampled_from(["content-type", "TCB-Info-Issuer-Chain", "retry-after", "location", "x"]),
            st.sampled_from(["application/json", "-----BEGIN%20", "12"]) | st.text(max_size=60),
        ),
        max_size=5,
    ),
    body=st.binary(max_size=80) | st.sampled_from([b"{}", b"\x30\x00", b"3000"]),
)
def test_no_response_causes_anything_but_an_answer_or_a_refusal(
    item: str, status: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    try:
        read_answer(QUESTIONS[item], Response(status, tuple(headers), body), now=datetime.now(UTC))
    except AffiantError as refusal:
        assert refusal.code.startswith("collateral.")


def test_limits_are_those_of_the_parsers() -> None:
    def limit(question: Question) -> int:
        return question.limit

    assert max(map(limit, QUESTIONS.values())) == 512 * 1024
