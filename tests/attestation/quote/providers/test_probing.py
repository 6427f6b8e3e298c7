"""What a machine has is said without a change to it."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest
from tests.attestation.quote.providers.paravisor import Paravisor

from affiant.attestation.quote.providers import probing
from affiant.attestation.quote.providers.base.errors import ProviderDenied
from affiant.attestation.quote.providers.machine_paths import Places
from affiant.attestation.quote.providers.probing import probe


def places(folder: Path) -> Places:
    return Places(
        home=folder,
        tsm_root=folder / "tsm",
        dstack_socket=folder / "dstack.sock",
        tappd_socket=folder / "tappd.sock",
        tpm_device=folder / "tpmrm0",
    )


def codes(folder: Path) -> dict[str, str | None]:
    return {
        state.source: None if state.refusal is None else state.refusal.code for state in probe(places(folder))
    }


def test_a_machine_without_any_says_why_of_each(tmp_path: Path) -> None:
    assert codes(tmp_path) == {
        "configfs-tsm": "source.absent",
        "dstack": "source.absent",
        "azure-vtpm": "source.absent",
        "simulated": "platform.unreachable",
    }
    assert list(tmp_path.iterdir()) == []


def test_what_is_there_is_found_and_nothing_is_made_in_it(tmp_path: Path) -> None:
    (tmp_path / "tsm").mkdir()
    with socket.socket(socket.AF_UNIX) as agent:
        agent.bind(str(tmp_path / "tappd.sock"))
        found = codes(tmp_path)
    assert (found["configfs-tsm"], found["dstack"]) == (None, None)
    assert list((tmp_path / "tsm").iterdir()) == []


def test_a_file_is_no_agent(tmp_path: Path) -> None:
    (tmp_path / "dstack.sock").write_bytes(b"")
    assert codes(tmp_path)["dstack"] == "source.absent"


def test_an_azure_vtpm_is_found_by_its_index(
    tmp_path: Path, paravisor: Paravisor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(probing, "TPMDevice", lambda _: paravisor)
    assert codes(tmp_path)["azure-vtpm"] is None
    monkeypatch.setattr(probing.importlib.util, "find_spec", lambda _: None)
    assert codes(tmp_path)["azure-vtpm"] == "source.settings"


@pytest.mark.skipif(os.geteuid() == 0, reason="root may use everything")
def test_what_this_user_may_not_use_is_denied(tmp_path: Path) -> None:
    (tmp_path / "tsm").mkdir(0o500)
    assert codes(tmp_path)["configfs-tsm"] == ProviderDenied.code


def test_each_says_what_its_evidence_is(tmp_path: Path) -> None:
    said = {state.source: state.gives for state in probe(places(tmp_path))}
    assert "SIMULATED" in said["simulated"]
    assert "not plain TDX" in said["azure-vtpm"]
