"""One request for inference: what it passes is counted, its answer is parsed once, and its record is formed once."""

from __future__ import annotations

from pathlib import Path

from benchmarks.request_walk import walked
from tests.gateway.in_process import in_process
from tests.gateway.session_client import SessionClient

from affiant.attestation.simulated.served.client import PlatformClient

MOST = 303
"""Functions that one request passed when this was written."""


def test_one_request_passes_few_functions(platform: PlatformClient, tmp_path: Path) -> None:
    with in_process(platform, tmp_path / "store") as gateway:
        calls = walked(gateway, SessionClient.start(gateway, platform))
    print(f"functions of one request: {len(calls)}")
    assert len(calls) <= MOST
    assert calls["gateway/dialects/strict_json.py:parse_json"] == 2, "the request and the answer, each once"
    assert calls["gateway/dialects/strict_json.py:read_response"] == 1
    assert calls["gateway/requests/account.py:Account._form"] == 1
    assert calls["gateway/sessions/recorder.py:Recorder.session_record"] == 1
