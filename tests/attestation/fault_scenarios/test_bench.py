from __future__ import annotations

import json

from tests.attestation.fault_scenarios.conftest import AT, bench, evidence_of

from affiant.attestation.quote.judge.pins import parse_reference_file
from affiant.attestation.release.boot import Image
from affiant.attestation.tdx.event_log.eventlog import parse_event_log
from affiant.attestation.tdx.quote.quote import parse_quote
from fault_scenarios.bench import IMAGE, RELEASE
from fault_scenarios.changes import another_root, each, enclave, module, unchanged
from fault_scenarios.cli.catalogue import CATALOGUE


def test_a_bench_gives_the_same_evidence_twice() -> None:
    assert bench().evidence() == bench().evidence()
    assert each(unchanged, unchanged)(bench()) == bench()


def test_changes_are_made_in_their_order() -> None:
    changed = each(enclave(isv_svn=1), module(mrseam=bytes(48)), enclave(isv_svn=2))(bench())
    assert changed.platform.enclave.isv_svn == 2
    assert changed.platform.module.mrseam == bytes(48)


def test_another_root_has_the_same_names_and_other_keys() -> None:
    mine, other = bench().platform.certificates, another_root(bench()).certificates
    assert mine.root.subject == other.root.subject
    assert mine.root.public_key() != other.root.public_key()


def test_what_a_td_runs_is_measured_from_no_file() -> None:
    quote = parse_quote(bench().evidence().quote)
    assert quote.body.mrtd == RELEASE.images[Image.GATEWAY].mrtd
    assert [file for file, _ in RELEASE.files] == ["SIMULATED"]
    assert quote.body.rtmrs[3] == bytes(48)
    log = parse_event_log(bench().event_log)
    assert not log.events(3)


def test_everything_asked_is_the_platforms_own() -> None:
    evidence = evidence_of(CATALOGUE["everything-asked"])
    assert evidence.asked.reference is not None
    pins = parse_reference_file(evidence.asked.reference, AT)
    assert json.loads(evidence.asked.reference)["cls"] == "simulated"
    assert {one.mrtd for one in pins.references[0].images[IMAGE.value]} == {
        RELEASE.images[Image.GATEWAY].mrtd
    }
