"""Fetching, over real HTTPS on loopback: what comes back is verified, or nothing comes back."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.attestation.quote.collateral.conftest import NOW, Recorded, Simulated, random_bytes
from tests.attestation.quote.collateral.pcs_server import (
    Asked,
    PCSServer,
    Step,
    drip,
    item_reply,
    reply,
    serve,
    slow,
    url_encoded,
)
from tests.raising import raises_code

from affiant.attestation.quote.collateral.cache import CollateralCache
from affiant.attestation.quote.collateral.entry import Source
from affiant.attestation.quote.collateral.errors import (
    ExtraMissing,
    PlatformUnknown,
    RedirectRefused,
    ResponseRefused,
    ServerNotAuthentic,
    ServiceUnavailable,
    ServiceUnreachable,
    SettingsInvalid,
)
from affiant.attestation.quote.collateral.fetch import Patience, fetch_collateral
from affiant.attestation.quote.collateral.pcs import HTTPSettings, connect
from affiant.attestation.quote.collateral.pcs_responses import Answer
from affiant.attestation.quote.collateral.service import Question, Service
from affiant.attestation.quote.collateral.wanted import (
    EARLY,
    STANDARD,
    Authority,
    Edition,
    Evaluation,
    Platform,
    platform_of,
)
from affiant.attestation.release.platform_identity import MachineIdentity, PCKIssuer
from affiant.attestation.simulated.platform.pki import CertificateRole
from affiant.attestation.simulated.platform.platform import CollateralPart, SimulatedPlatform
from affiant.attestation.tdx.pki.roots import TrustRoots
from affiant.attestation.tdx.quote.errors import (
    CollateralExpired,
    CRLExpired,
    TCBInfoMalformed,
    UntrustedRoot,
)
from affiant.attestation.tdx.quote.quote import parse_quote
from affiant.attestation.tdx.tcb.collateral_verification import VerifiedCollateral
from affiant.errors import AffiantError

ONCE = Patience(attempts=1)
QUICK = HTTPSettings(answer_s=5.0, silence_s=2.0)


class Waits:
    """Stands in for the clock's passing."""

    def __init__(self) -> None:
        self.seconds: list[float] = []

    async def __call__(self, seconds: float) -> None:
        self.seconds.append(seconds)


def fetch(
    server: PCSServer,
    asked: Platform,
    trust: TrustRoots,
    *,
    now: datetime = NOW,
    edition: Edition = STANDARD,
    patience: Patience = ONCE,
    settings: HTTPSettings = QUICK,
    url: str | None = None,
    **options: Any,
) -> VerifiedCollateral:
    async def run() -> VerifiedCollateral:
        async with connect(replace(settings, tls_ca=settings.tls_ca or server.ca)) as transport:
            return await fetch_collateral(
                transport,
                Service.pccs(url or server.url),
                asked,
                trust=trust,
                clock=lambda: now,
                edition=edition,
                patience=patience,
                **options,
            )

    return asyncio.run(run())


def refusal(server: PCSServer, simulated: Simulated, **options: Any) -> AffiantError:
    with pytest.raises(AffiantError) as refused:
        fetch(server, simulated.asked, simulated.trust, **options)
    return refused.value


def always(*steps: Step) -> Callable[[Asked], Sequence[Step]]:
    return lambda _asked: list(steps)


# -- what is asked, and what comes back ---------------------------------------------------------------------------


def test_four_questions_over_one_connection_give_verified_collateral(
    pcs: PCSServer, simulated: Simulated
) -> None:
    verified = fetch(pcs, simulated.asked, simulated.trust)
    assert verified.collateral == pcs.collateral
    assert pcs.items() == ["tcb_info", "qe_identity", "pck_crl", "root_ca_crl"]
    assert pcs.connections == 1
    assert {asked.headers["accept-encoding"] for asked in pcs.asked} == {"identity"}
    assert pcs.asked[0].query == {"fmspc": simulated.asked.fmspc.hex()}


def test_intels_recorded_answers_verify_under_intels_root(recorded: Recorded, tls: Path) -> None:
    with serve(recorded.collateral(), tls) as server:
        chains = {
            "tcb_info": "tcb_info_90c06f000000_chain.txt",
            "qe_identity": "qe_identity_chain.txt",
            "pck_crl": "pck_crl_platform_chain.txt",
        }
        names = {
            "tcb_info": "TCB-Info-Issuer-Chain",
            "qe_identity": "SGX-Enclave-Identity-Issuer-Chain",
            "pck_crl": "SGX-PCK-CRL-Issuer-Chain",
        }
        for item, file in chains.items():
            header = {names[item]: recorded.header(file)}
            server.scripts[item] = always(*item_reply(server.collateral, item, **header))
        verified = fetch(server, recorded.platform, TrustRoots.intel(), now=recorded.now)
    assert verified.collateral == recorded.collateral()
    assert verified.evaluation_number == 18


@pytest.mark.parametrize("issuer", PCKIssuer)
def test_platforms_of_both_authorities_are_served_and_kept(
    tls: Path, tmp_path: Path, issuer: PCKIssuer
) -> None:
    """Both kinds, from the quote to the question, the answer and the cache."""
    made = SimulatedPlatform.create(
        now=NOW - timedelta(days=9), random_bytes=random_bytes("ca"), machine=MachineIdentity(issuer=issuer)
    )
    simulated, cache = Simulated(made), CollateralCache(tmp_path / "cache")
    asked = platform_of(parse_quote(simulated.quote()))
    with serve(simulated.collateral(), tls) as server:
        verified = fetch(server, asked, simulated.trust)
    assert server.asked[2].query["ca"] == str(asked.authority)
    assert asked.authority.pck_ca.value == issuer.value
    cache.store(verified, Source(server.url, "standard", NOW))
    assert cache.load(asked, now=NOW, trust=simulated.trust).collateral == server.collateral


@pytest.mark.parametrize(
    ("edition", "expected"),
    [(STANDARD, {}), (EARLY, {"update": "early"}), (Evaluation(17), {"tcbEvaluationDataNumber": "17"})],
)
def test_both_documents_are_asked_for_in_one_edition(
    simulated: Simulated, tls: Path, edition: Edition, expected: dict[str, str]
) -> None:
    with serve(simulated.collateral(number=17), tls) as server:
        fetch(server, simulated.asked, simulated.trust, edition=edition)
    assert server.asked[0].query == {"fmspc": simulated.asked.fmspc.hex(), **expected}
    assert server.asked[1].query == expected


def test_the_clock_is_read_after_the_answers(pcs: PCSServer, simulated: Simulated) -> None:
    """A service that signs on demand dates its documents later than the question."""
    seen = []

    def clock() -> datetime:
        seen.append(len(pcs.asked))
        return NOW

    async def run() -> None:
        async with connect(replace(QUICK, tls_ca=pcs.ca)) as transport:
            await fetch_collateral(
                transport, Service.pccs(pcs.url), simulated.asked, trust=simulated.trust, clock=clock
            )

    asyncio.run(run())
    assert seen[-1] == 4


# -- nothing unverified comes back --------------------------------------------------------------------------------


def test_collateral_of_another_root_is_refused(
    pcs: PCSServer, simulated: Simulated, other: Simulated
) -> None:
    with pytest.raises(UntrustedRoot):
        fetch(pcs, simulated.asked, other.trust)
    with pytest.raises(UntrustedRoot):
        fetch(pcs, simulated.asked, TrustRoots.intel())


def test_a_chain_of_another_authority_is_refused(
    pcs: PCSServer, simulated: Simulated, other: Simulated
) -> None:
    foreign = url_encoded(other.collateral().tcb_info_issuer_chain)
    pcs.scripts["tcb_info"] = always(*item_reply(pcs.collateral, "tcb_info", TCB_Info_Issuer_Chain=foreign))
    assert isinstance(refusal(pcs, simulated), UntrustedRoot)


def test_swapped_headers_are_refused(pcs: PCSServer, simulated: Simulated) -> None:
    """The PCK authority's chain where the signer's belongs: it ends in the same root."""
    swapped = url_encoded(pcs.collateral.pck_crl_issuer_chain)
    pcs.scripts["tcb_info"] = always(*item_reply(pcs.collateral, "tcb_info", TCB_Info_Issuer_Chain=swapped))
    assert refusal(pcs, simulated).code == "collateral.issuer"


def test_swapped_bodies_are_refused(pcs: PCSServer, simulated: Simulated) -> None:
    swapped = replace(pcs.collateral, tcb_info=pcs.collateral.qe_identity)
    pcs.scripts["tcb_info"] = always(*item_reply(swapped, "tcb_info"))
    assert isinstance(refusal(pcs, simulated), TCBInfoMalformed)


def test_one_changed_byte_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    changed = replace(pcs.collateral, tcb_info=pcs.collateral.tcb_info.replace(b"OutOfDate", b"UpToDate", 1))
    pcs.scripts["tcb_info"] = always(*item_reply(changed, "tcb_info"))
    assert refusal(pcs, simulated).code == "collateral.signature"


def test_a_body_formatted_again_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    changed = replace(pcs.collateral, tcb_info=pcs.collateral.tcb_info.replace(b'":', b'": '))
    pcs.scripts["tcb_info"] = always(*item_reply(changed, "tcb_info"))
    assert refusal(pcs, simulated).code == "collateral.signature"


@pytest.mark.parametrize(
    ("part", "expected"),
    [(CollateralPart.TCB_INFO, CollateralExpired), (CollateralPart.ROOT_CRL, CRLExpired)],
)
def test_an_expired_document_is_refused(
    simulated: Simulated, tls: Path, part: CollateralPart, expected: type[AffiantError]
) -> None:
    with serve(simulated.collateral(shifts={part: timedelta(days=-31)}), tls) as server:
        assert isinstance(refusal(server, simulated), expected)


def test_a_revoked_signer_is_refused(simulated: Simulated, tls: Path) -> None:
    revoked = frozenset((CertificateRole.TCB_SIGNING,))
    with serve(simulated.collateral(revoked=revoked), tls) as server:
        assert refusal(server, simulated).code == "cert.revoked"


def test_a_document_of_another_platform_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    asked = Platform(bytes.fromhex("00806f050000"), simulated.asked.authority)
    with raises_code("tcb.mismatch", match="00806f050000"):
        fetch(pcs, asked, simulated.trust)


def test_the_list_of_the_other_authority_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    other = next(authority for authority in Authority if authority is not simulated.asked.authority)
    with raises_code("crl.issuer"):
        fetch(pcs, Platform(simulated.asked.fmspc, other), simulated.trust)


def test_the_identity_of_another_enclave_is_refused(simulated: Simulated, tls: Path) -> None:
    identity = replace(simulated.platform.qe_identity, identifier="QE")
    with serve(simulated.collateral(qe_identity=identity), tls) as server:
        assert refusal(server, simulated).code == "qe.identity"


def test_another_evaluation_than_the_one_named_is_refused(simulated: Simulated, tls: Path) -> None:
    with serve(simulated.collateral(number=17), tls) as server:
        found = refusal(server, simulated, edition=Evaluation(18))
    assert isinstance(found, ResponseRefused)
    assert (found.expected, found.found) == ("tcbEvaluationDataNumber 18", "17")


# -- a service that fails -----------------------------------------------------------------------------------------


def test_an_unknown_fmspc_is_asked_for_once(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(*reply(status="404 Not Found"))
    assert isinstance(refusal(pcs, simulated, patience=Patience()), PlatformUnknown)
    assert pcs.items() == ["tcb_info"]


def test_a_busy_service_is_asked_again_when_it_says(pcs: PCSServer, simulated: Simulated) -> None:
    tries = iter([reply(status="503 Service Unavailable", retry_after="2"), reply(status="429 Slow Down")])
    pcs.scripts["qe_identity"] = lambda _: next(tries, None) or item_reply(pcs.collateral, "qe_identity")
    waits = Waits()
    fetch(pcs, simulated.asked, simulated.trust, patience=Patience(), sleep=waits)
    assert waits.seconds == [2, 2]
    assert pcs.items().count("qe_identity") == 3


def test_a_service_that_stays_busy_is_given_up(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(*reply(status="503 Service Unavailable"))
    waits = Waits()
    found = refusal(pcs, simulated, patience=Patience(), sleep=waits)
    assert isinstance(found, ServiceUnavailable)
    assert (waits.seconds, len(pcs.asked)) == ([1, 2], 3)


def test_a_long_pause_is_told_and_not_waited_for(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(*reply(status="503 Service Unavailable", retry_after="3600"))
    waits = Waits()
    found = refusal(pcs, simulated, patience=Patience(), sleep=waits)
    assert "3600 s" in str(found)
    assert waits.seconds == []


def test_a_redirect_is_not_followed(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(
        *reply(status="302 Found", location=f"{pcs.url}/tdx/certification/v4/qe/identity")
    )
    assert isinstance(refusal(pcs, simulated, patience=Patience()), RedirectRefused)
    assert pcs.items() == ["tcb_info"]


def test_another_content_type_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(*item_reply(pcs.collateral, "tcb_info", content_type="text/html"))
    assert isinstance(refusal(pcs, simulated), ResponseRefused)


def test_a_missing_chain_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = always(*item_reply(pcs.collateral, "tcb_info", TCB_Info_Issuer_Chain=""))
    assert "TCB-Info-Issuer-Chain" in str(refusal(pcs, simulated))


@pytest.mark.parametrize("declared", [True, False])
def test_an_oversized_answer_is_refused_before_it_is_read(
    pcs: PCSServer, simulated: Simulated, *, declared: bool
) -> None:
    """Whether its length is declared or not; what follows is never asked for."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    head += b"content-length: 999999999\r\n\r\n" if declared else b"connection: close\r\n\r\n"
    pcs.scripts["qe_identity"] = always(head + b"{" * 70_000, 3.0, b"CLOSE")
    begun = time.monotonic()
    found = refusal(pcs, simulated)
    assert isinstance(found, ResponseRefused)
    assert "too large" in str(found)
    assert time.monotonic() - begun < 2


@pytest.mark.parametrize("item", ["tcb_info", "root_ca_crl"])
def test_a_truncated_answer_is_refused(pcs: PCSServer, simulated: Simulated, item: str) -> None:
    steps = item_reply(pcs.collateral, item)
    pcs.scripts[item] = always(*(step[:-10] for step in steps if isinstance(step, bytes)), b"CLOSE")
    found = refusal(pcs, simulated)
    assert isinstance(found, ServiceUnreachable)
    assert "early" in str(found)


def test_a_truncated_answer_of_no_declared_length_is_refused(pcs: PCSServer, simulated: Simulated) -> None:
    steps = item_reply(pcs.collateral, "root_ca_crl", content_length="", connection="close")
    pcs.scripts["root_ca_crl"] = always(*(step[:-10] for step in steps if isinstance(step, bytes)), b"CLOSE")
    assert refusal(pcs, simulated).code == "crl.malformed"


def test_a_dropped_connection_is_tried_again(pcs: PCSServer, simulated: Simulated) -> None:
    tries = iter([[b"CLOSE"]])
    pcs.scripts["pck_crl"] = lambda _: next(tries, None) or item_reply(pcs.collateral, "pck_crl")
    waits = Waits()
    fetch(pcs, simulated.asked, simulated.trust, patience=Patience(), sleep=waits)
    assert waits.seconds == [1]


def test_a_silent_service_is_given_up(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = lambda _: slow(item_reply(pcs.collateral, "tcb_info"), 5.0)
    found = refusal(pcs, simulated, settings=HTTPSettings(silence_s=0.3))
    assert isinstance(found, ServiceUnreachable)
    assert "silent" in str(found)


def test_a_service_that_hung_once_is_asked_again_over_a_new_connection(
    pcs: PCSServer, simulated: Simulated
) -> None:
    tries = iter([slow([], 30.0)])
    pcs.scripts["tcb_info"] = lambda _: next(tries, None) or item_reply(pcs.collateral, "tcb_info")
    waits = Waits()
    settings = HTTPSettings(answer_s=0.8)
    fetch(pcs, simulated.asked, simulated.trust, patience=Patience(), settings=settings, sleep=waits)
    assert (waits.seconds, pcs.connections) == ([1], 2)


@pytest.mark.parametrize("part", ["headers", "body"])
def test_a_trickle_is_cut_off_as_a_whole(pcs: PCSServer, simulated: Simulated, part: str) -> None:
    """Each byte comes in time; the answer does not."""
    whole = item_reply(pcs.collateral, "tcb_info")
    if part == "headers":
        pcs.scripts["tcb_info"] = lambda _: drip(whole, seconds=0.05)
    else:
        head, _, body = b"".join(step for step in whole if isinstance(step, bytes)).partition(b"\r\n\r\n")
        pcs.scripts["tcb_info"] = lambda _: [head + b"\r\n\r\n", *drip([body], seconds=0.05)]
    begun = time.monotonic()
    found = refusal(pcs, simulated, settings=HTTPSettings(answer_s=0.6))
    assert isinstance(found, ServiceUnreachable)
    assert "in time" in str(found)
    assert time.monotonic() - begun < 3


def test_a_slow_service_that_arrives_in_time_is_heard(pcs: PCSServer, simulated: Simulated) -> None:
    pcs.scripts["tcb_info"] = lambda _: drip(item_reply(pcs.collateral, "tcb_info"), seconds=0.02, size=600)
    fetch(pcs, simulated.asked, simulated.trust)


def test_a_port_without_a_service_is_named(pcs: PCSServer, simulated: Simulated) -> None:
    found = refusal(pcs, simulated, url="https://127.0.0.1:1")
    assert isinstance(found, ServiceUnreachable)
    assert "127.0.0.1:1" in str(found)


# -- TLS and the environment --------------------------------------------------------------------------------------


def test_an_authority_that_was_not_named_is_not_believed(pcs: PCSServer, simulated: Simulated) -> None:
    import certifi

    found = refusal(
        pcs, simulated, settings=replace(QUICK, tls_ca=Path(certifi.where())), patience=Patience()
    )
    assert isinstance(found, ServerNotAuthentic)
    assert found.code == "collateral.tls"
    assert pcs.asked == []


def test_a_certificate_for_another_name_is_not_believed(simulated: Simulated, tmp_path: Path) -> None:
    with serve(simulated.collateral(), tmp_path, name="pccs.example") as server:
        assert isinstance(refusal(server, simulated), ServerNotAuthentic)
    assert server.asked == []


def test_the_environment_changes_nothing(
    pcs: PCSServer, simulated: Simulated, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTPS_PROXY", "https_proxy", "ALL_PROXY", "HTTP_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    monkeypatch.setenv("SSL_CERT_FILE", str(pcs.ca))
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys"))
    fetch(pcs, simulated.asked, simulated.trust)
    assert not (tmp_path / "keys").exists()
    import certifi

    found = refusal(pcs, simulated, settings=replace(QUICK, tls_ca=Path(certifi.where())))
    assert isinstance(found, ServerNotAuthentic)


def test_a_proxy_is_an_argument(pcs: PCSServer, simulated: Simulated) -> None:
    found = refusal(pcs, simulated, settings=replace(QUICK, proxy="http://user:hidden@127.0.0.1:1"))
    assert isinstance(found, ServiceUnreachable)
    assert "hidden" not in str(found)
    assert "hidden" not in repr(HTTPSettings(proxy="http://user:hidden@127.0.0.1:1"))


@pytest.mark.parametrize("proxy", ["nonsense", "ftp://user:hidden@proxy", "http://user:hidden@[::1"])
def test_a_proxy_that_cannot_be_meant_is_refused_without_its_password(
    pcs: PCSServer, simulated: Simulated, proxy: str
) -> None:
    found = refusal(pcs, simulated, settings=replace(QUICK, proxy=proxy))
    assert isinstance(found, SettingsInvalid)
    assert "hidden" not in str(found)


@pytest.mark.parametrize("content", [b"", b"no certificate", None])
def test_a_file_without_authorities_is_refused(
    pcs: PCSServer, simulated: Simulated, tmp_path: Path, content: bytes | None
) -> None:
    path = tmp_path / "authorities.pem"
    if content is not None:
        path.write_bytes(content)
    assert isinstance(refusal(pcs, simulated, settings=replace(QUICK, tls_ca=path)), SettingsInvalid)


def test_without_the_client_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "httpx", None)

    async def run() -> None:
        async with connect(HTTPSettings()):
            pass

    with pytest.raises(ExtraMissing, match=r"affiant\[collateral\]"):
        asyncio.run(run())


# -- what is told on the way --------------------------------------------------------------------------------------


class Told:
    def __init__(self) -> None:
        self.lines: list[str] = []

    def asking(self, question: Question) -> None:
        self.lines.append(f"asking {question.item}")

    def answered(self, question: Question, answer: Answer) -> None:
        self.lines.append(f"answered {question.item} {len(answer.content)}")

    def waiting(self, question: Question, seconds: int, why: AffiantError) -> None:
        self.lines.append(f"waiting {question.item} {seconds} {why.code}")


def test_progress_is_told_in_order(pcs: PCSServer, simulated: Simulated) -> None:
    tries = iter([reply(status="503 Service Unavailable", retry_after="1")])
    pcs.scripts["tcb_info"] = lambda _: next(tries, None) or item_reply(pcs.collateral, "tcb_info")
    told = Told()
    fetch(pcs, simulated.asked, simulated.trust, patience=Patience(), sleep=Waits(), progress=told)
    size = len(pcs.collateral.tcb_info)
    assert told.lines[:4] == [
        "asking tcb_info",
        "waiting tcb_info 1 collateral.unavailable",
        "asking tcb_info",
        f"answered tcb_info {size}",
    ]
