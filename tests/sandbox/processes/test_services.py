"""Which gateway of the state folder is taken for ours, and when services are started, used and left."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest
from tests.attestation.release_of_files import release_of
from tests.raising import raises_code

from affiant.attestation.quote.providers.own_platform import PlatformName
from affiant.attestation.release.manifest import reference_values
from affiant.attestation.statements.gateway_config import DEV_ECHO, GatewayConfig, local_gateway_config
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tlog.note_keys import CosignerKey
from affiant.errors import StateError
from affiant.sandbox.processes import services
from affiant.sandbox.processes.gateway_probe import RunningGateway
from affiant.sandbox.processes.home import Home, open_home, open_lock
from affiant.sandbox.processes.services import GatewayChoice

REFERENCE = parse_reference_values(reference_values(release_of([("affiant/a.py", "11" * 32)]), b"a root key"))
_WITNESS = CosignerKey("w.example/1", bytes(32))
WITNESSES = f"witness w {_WITNESS.vkey()} http://127.0.0.1:7000\nquorum w\n"
OTHER = replace(DEV_ECHO, url="http://127.0.0.1:9/v1")


def gateway_of_this_home(
    config: GatewayConfig, upstreams: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[str, GatewayConfig]:
    running = RunningGateway("https://127.0.0.1:1", config.digest, "s" * 43)
    monkeypatch.setattr(services, "_own_gateway", lambda _: (running, config))
    choice = GatewayChoice(upstreams=upstreams)
    return services._gateway(Home(tmp_path), choice, frozenset(), REFERENCE.raw)


@pytest.mark.parametrize("upstreams", [(), (OTHER.url,)])
@pytest.mark.parametrize("witnesses", [None, WITNESSES])
def test_a_gateway_that_asks_witnesses_is_ours_as_one_that_asks_nobody(
    upstreams: tuple[str, ...], witnesses: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = local_gateway_config(
        REFERENCE, upstreams=(OTHER if upstreams else DEV_ECHO,), witnesses=witnesses
    )
    assert gateway_of_this_home(config, upstreams, tmp_path, monkeypatch)[1] == config
    assert config.unwitnessed.witness_policy is None


@pytest.mark.parametrize("witnesses", [None, WITNESSES])
def test_a_gateway_with_other_upstreams_is_not_taken_for_ours(
    witnesses: str | None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = local_gateway_config(REFERENCE, upstreams=(OTHER,), witnesses=witnesses)
    with raises_code("services.other_configuration") as refused:
        gateway_of_this_home(config, (), tmp_path, monkeypatch)
    assert (refused.value.expected, refused.value.found) == (
        f"upstreams: {DEV_ECHO.url}",
        f"upstreams: {OTHER.url}",
    )


def test_only_what_differs_of_a_configuration_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same upstream, asked less at once; and other bounds."""
    slower = replace(DEV_ECHO, concurrent=2)
    config = local_gateway_config(REFERENCE, upstreams=(slower,))
    with raises_code("services.other_configuration") as refused:
        gateway_of_this_home(config, (), tmp_path, monkeypatch)
    assert refused.value.expected != refused.value.found
    assert "concurrent" in str(refused.value.found)
    assert "reference" not in str(refused.value.found)


def test_an_upstream_that_is_waited_for_otherwise_is_another_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = replace(OTHER, head_s=900, total_s=1000)
    config = local_gateway_config(REFERENCE, upstreams=(slow,))
    with raises_code("services.other_configuration") as refused:
        gateway_of_this_home(config, (OTHER.url,), tmp_path, monkeypatch)
    assert str(refused.value.found) == f"upstreams: {OTHER.url} head_s 900 total_s 1000"


LONG = tuple(f"request.member_{number}_of_many" for number in range(30))


@pytest.mark.parametrize("upstreams", [(), ("http://127.0.0.1:7/v1",)])
def test_what_decides_is_told_first_however_much_else_differs(
    upstreams: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = local_gateway_config(REFERENCE, upstreams=(OTHER,), allowed_members={"chat": LONG})
    with raises_code("services.other_configuration") as refused:
        gateway_of_this_home(config, upstreams, tmp_path, monkeypatch)
    asked = upstreams[0] if upstreams else DEV_ECHO.url
    assert str(refused.value.expected).startswith(f"upstreams: {asked}")
    assert str(refused.value.found).startswith(f"upstreams: {OTHER.url}")
    assert ("member_0_of_many" in str(refused.value.found)) is not bool(upstreams), "where it counts"


def test_other_reference_values_are_told_first_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = parse_reference_values(
        reference_values(release_of([("affiant/a.py", "22" * 32)]), b"a root key")
    )
    config = local_gateway_config(elsewhere, allowed_members={"chat": LONG})
    with raises_code("services.other_configuration") as refused:
        gateway_of_this_home(config, (), tmp_path, monkeypatch)
    assert str(refused.value.found).startswith(f"reference: {config.reference}")


class Supervisor:
    """A service supervisor that stays, and what was asked of it."""

    pid, ended = 1, False

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def wait(self) -> int:
        await asyncio.Event().wait()
        return 0

    async def stop(self, *, grace_s: float = 0.0) -> int:
        self.asked.append("stop")
        return 0

    def send_signal(self, number: int) -> None:
        self.asked.append("signal")

    def release(self) -> None:
        self.asked.append("release")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    monkeypatch.setattr(services, "simulated_reference", lambda *_, **__: (None, REFERENCE.raw))
    return open_home(tmp_path / "home")


async def ensured(home: Home) -> services.Services:
    return await services.ensure_services(
        home, GatewayChoice(), now=datetime.now(UTC), random_bytes=os.urandom, platform=PlatformName.SIMULATED
    )


def what_is_started(
    home: Home, monkeypatch: pytest.MonkeyPatch, *, ends: bool
) -> tuple[tuple[str, ...], bool]:
    """What a launcher starts while another service supervisor is there, and whether that was there still."""
    started = []

    async def start(_home, missing, *_, **__):
        started.append((missing, not services._locks(held, fcntl.LOCK_EX)))
        raise StateError("enough", code="service.failed")

    async def run() -> None:
        if ends:
            asyncio.get_running_loop().call_later(0.1, os.close, ending)
        with raises_code("service.failed"):
            await asyncio.wait_for(ensured(home), 10)

    lock = services.service_supervisors_lock(home)
    ending, held = open_lock(lock), open_lock(lock)
    assert services._locks(ending, fcntl.LOCK_SH)

    def missing(*_) -> tuple[str, ...]:  # its gateway has ended, its platform not yet
        return ("platform", "gateway") if services._locks(held, fcntl.LOCK_EX) else ("gateway",)

    monkeypatch.setattr(services, "_missing", missing)
    monkeypatch.setattr(services, "_start", start)
    try:
        asyncio.run(run())
    finally:
        os.close(held)
        if not ends:
            os.close(ending)
    return started[0]


def test_services_whose_starter_was_interrupted_are_not_used(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert what_is_started(home, monkeypatch, ends=True) == (("platform", "gateway"), False)


def test_a_service_supervisor_that_stays_is_not_waited_for_for_ever(
    home: Home, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "_SERVICES_STOP_WITHIN_S", 0.1)
    assert what_is_started(home, monkeypatch, ends=False) == (("gateway",), True)


@pytest.mark.parametrize("others", [True, False])
def test_an_interrupted_launcher_does_not_end_services_that_another_may_use(
    home: Home, monkeypatch: pytest.MonkeyPatch, others: bool
) -> None:
    """They are ready: they end by themselves with the last launcher."""
    supervisor, looking = Supervisor(), threading.Event()

    async def start(*_, **__):
        return supervisor

    def look(*_):
        looking.set()
        time.sleep(5)

    async def run() -> None:
        other = await services._join(home) if others else -1
        task = asyncio.ensure_future(ensured(home))
        await asyncio.to_thread(looking.wait, 10)
        task.cancel()
        await asyncio.wait({task}, timeout=5)
        assert task.cancelled()
        if others:
            os.close(other)

    monkeypatch.setattr(services, "_missing", lambda *_: ("platform", "gateway"))
    monkeypatch.setattr(services, "_start", start)
    monkeypatch.setattr(services, "_gateway", look)
    asyncio.run(run())
    assert supervisor.asked == ["release"]
