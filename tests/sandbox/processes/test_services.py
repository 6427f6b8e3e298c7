"""Which gateway of the state folder is taken for ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.attestation.release_of_files import release_of
from tests.raising import raises_code

from affiant.attestation.release.manifest import reference_values
from affiant.attestation.statements.gateway_config import DEV_ECHO, GatewayConfig, local_gateway_config
from affiant.attestation.tdx.appraise.reference import parse_reference_values
from affiant.attestation.tlog.note_keys import CosignerKey
from affiant.sandbox.processes import services
from affiant.sandbox.processes.gateway_probe import RunningGateway
from affiant.sandbox.processes.home import Home
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
