"""A decision as an OCSF event: what it says, what it refuses to make up, and the published schema where it is given.

``AFFIANT_OCSF_SCHEMA``: the schema of the version that is written, as ``ocsf-schema-compiler`` compiles it.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.policy.replay.ocsf_schema import OCSFSchema, all_paths
from tests.policy.replay.recorded import DIGEST, LINES, lines, recorded
from tests.properties import thorough
from tests.raising import raises_code

from affiant.policy.replay.members import decision_members
from affiant.policy.replay.ocsf import OCSF_VERSION, ocsf_event

BASE = {
    "activity_id": int,
    "category_uid": int,
    "class_uid": int,
    "metadata": dict,
    "severity_id": int,
    "time": int,
    "type_uid": int,
}
"""Required of every event: OCSF 1.8.0, ``events/base_event.json``."""
OF_CLASS: Mapping[int, Mapping[str, type]] = {
    1001: {"actor": dict, "device": dict, "file": dict},  # events/system/file_activity.json, system.json
    4001: {"dst_endpoint": dict},  # events/network/network.json: one of the endpoints
    4002: {"dst_endpoint": dict, "http_request": dict},  # events/network/http_activity.json: at least one of
    6003: {"actor": dict, "api": dict, "src_endpoint": dict},  # events/application/api_activity.json
}
OF_OBJECT: Mapping[str, tuple[str, ...]] = {
    "metadata": ("product", "version"),  # objects/metadata.json
    "api": ("operation",),  # objects/api.json
    "file": ("name", "type_id"),  # objects/file.json
    "device": ("type_id",),  # objects/device.json
}
CLASSES = {
    "POST https://api.b.com/v1/items": (4002, 6),
    "GET http://plain.b.com:8080/x?a=b": (4002, 3),
    "PURGE https://api.b.com/": (4002, 99),
    "connect:api.b.com:8443": (4001, 1),
    "tool:run_tests": (6003, 99),
    "model:big": (6003, 99),
    "secret:KEY@api.b.com": (6003, 99),
    "read:/workspace/a b": (1001, 2),
    "write:/": (1001, 3),
}


def event(members: Mapping[str, object], **more: Any) -> Mapping[str, Any]:
    return ocsf_event(recorded(members), source="d.jsonl", version="1", **more)


def line(request: str) -> Mapping[str, object]:
    return next(each for each in LINES if each["request"] == request)


@pytest.mark.parametrize("members", LINES, ids=lambda members: str(members["request"])[:20])
def test_every_event_has_what_its_class_requires(members):
    found = event(members)
    for name, kind in {**BASE, **OF_CLASS[found["class_uid"]]}.items():
        assert type(found[name]) is kind, name
    for name, required in OF_OBJECT.items():
        assert set(required) <= set(found.get(name, required)), name
    assert found["type_uid"] == found["class_uid"] * 100 + found["activity_id"]
    assert found["category_uid"] == found["class_uid"] // 1000
    assert found["metadata"]["version"] == OCSF_VERSION
    assert "security_control" in found["metadata"]["profiles"]
    assert ("host" in found["metadata"]["profiles"]) is (found["category_uid"] == 4)


def test_each_plane_has_its_class_and_activity():
    found = {str(each["request"]): event(each) for each in LINES}
    assert {name: (found[name]["class_uid"], found[name]["activity_id"]) for name in CLASSES} == CLASSES


def test_an_http_request_says_where_it_went_and_what_the_policy_did():
    found = event(line("GET http://plain.b.com:8080/x?a=b"), places={"egress/0": "p.yaml:4:22"})
    assert found["http_request"]["url"] == {
        "scheme": "http",
        "hostname": "plain.b.com",
        "port": 8080,
        "path": "/x",
        "query_string": "a=b",
        "url_string": "http://plain.b.com:8080/x?a=b",
    }
    assert found["dst_endpoint"] == {"hostname": "plain.b.com", "port": 8080}
    assert (found["action_id"], found["disposition_id"], found["status_id"]) == (1, 1, 0)
    assert found["policy"] == {
        "name": "dev",
        "uid": DIGEST,
        "type": "affiant permission profile",
        "is_applied": True,
    }
    assert found["firewall_rule"] == {"uid": "egress/0", "desc": "p.yaml:4:22"}
    assert found["actor"] == {"app_name": "dev", "session": {"uid": "s-1"}}
    assert found["unmapped"]["secrets"] == ["KEY"]


def test_a_denial_failed_for_its_reason_and_a_demand_for_approval_is_neither():
    denied = event(line("POST https://api.b.com/v1/items"))
    assert (denied["action"], denied["disposition"], denied["status"]) == ("Denied", "Blocked", "Failure")
    assert (denied["status_code"], denied["severity_id"]) == ("method_not_listed", 2)
    assert denied["http_request"]["body_length"] == 12
    assert (denied["unmapped"]["latency"], denied["time"]) == (7, 1_700_000_000_000)
    asked = event(line("tool:run_tests"))
    assert (asked["action_id"], asked["action"], asked["disposition_id"]) == (99, "Approval required", 99)
    nobody = event(line('tool:apply {"n": "hunter2"}'))
    assert (nobody["action"], nobody["status"], nobody["severity"]) == ("Denied", "Failure", "Low")


def test_a_port_that_is_none_and_an_address_are_told_apart_from_names():
    assert event(line("connect:10.1.2.3"))["dst_endpoint"] == {"ip": "10.1.2.3", "port": 443}
    assert event(line("connect:api.b.com:99999"))["dst_endpoint"] == {"hostname": "api.b.com"}
    last = event({**LINES[0], "request": "connect:api.b.com:65535"})
    assert last["dst_endpoint"] == {"hostname": "api.b.com", "port": 65535}


def test_a_tool_that_is_offered_is_not_called_and_its_rule_is_no_firewall_s():
    assert event(line("tool:?@?"))["activity_name"] == "Offer"
    called = event(line("tool:run_tests"))
    assert (called["activity_name"], called["api"]) == ("Call", {"operation": "run_tests"})
    assert "firewall_rule" not in called
    served = event(line("tool:apply@k8s#sha256:" + "cd" * 32))
    assert served["api"] == {"operation": "apply", "service": {"name": "k8s"}}
    assert served["resources"] == [{"type": "tool", "name": "apply", "uid": "sha256:" + "cd" * 32}]


def test_a_method_that_ocsf_does_not_know_is_other_by_its_name():
    found = event(line("PURGE https://api.b.com/"))
    assert (found["activity_name"], found["type_name"]) == ("PURGE", "HTTP Activity: Other")
    assert "http_method" not in found["http_request"]


def test_several_rules_are_no_one_firewall_rule():
    found = event(line("PURGE https://api.b.com/"))
    assert "firewall_rule" not in found
    assert [each["id"] for each in found["unmapped"]["rules"]] == ["egress/0", "egress/2"]


@pytest.mark.parametrize(
    "without", [("ts",), ("agent", "session")], ids=["no time", "neither agent nor session"]
)
def test_what_ocsf_requires_and_a_line_does_not_have_is_not_made_up(without):
    members = {name: value for name, value in LINES[0].items() if name not in without}
    with raises_code("policy.decision_event") as refused:
        event(members)
    assert (refused.value.code, refused.value.where) == ("policy.decision_event", "d.jsonl:1")
    assert event({name: value for name, value in LINES[0].items() if name != "agent"})["actor"] == {
        "session": {"uid": "s-1"}
    }


def test_the_same_line_is_the_same_event_whoever_names_its_agent():
    nameless = {name: value for name, value in LINES[0].items() if name != "agent"}
    assert event(LINES[0])["metadata"]["uid"] == event(nameless)["metadata"]["uid"]
    other = ocsf_event(recorded(LINES[0], number=2), source="d.jsonl", version="1")
    assert other["metadata"]["uid"] != event(LINES[0])["metadata"]["uid"]


@thorough(60)
@given(st.one_of(lines(), st.sampled_from(LINES)))
@example(LINES[-1])
def test_no_member_of_a_line_is_lost(members):
    found = event(members)
    for name in decision_members(recorded(members)).keys() & {"attested", "offered", "withheld", "surface"}:
        assert found["unmapped"][name] == members[name]
    scalars = all_paths(json.loads(json.dumps(found)))
    for value in all_paths(dict(decision_members(recorded(members)))):
        if value not in ("allow", "ask", "deny"):
            assert value in scalars or value * 1000 in scalars


@pytest.fixture(scope="module")
def published() -> OCSFSchema:
    if "AFFIANT_OCSF_SCHEMA" not in os.environ:
        pytest.skip("no compiled OCSF schema given as AFFIANT_OCSF_SCHEMA")
    return OCSFSchema(Path(os.environ["AFFIANT_OCSF_SCHEMA"]))


def test_the_published_schema_holds_of_all_that_are_written(published):
    assert published.version == OCSF_VERSION
    for members in LINES:
        for places in ({}, {"egress/0": "p.yaml:4:22"}):
            assert published.faults(event(members, places=places)) == []


@thorough(100)
@given(lines())
def test_the_published_schema_holds_of_any(published, members):
    assert published.faults(event(members)) == []


def test_the_published_schema_notices_what_is_wrong(published):
    good = event(LINES[0])
    for change in (
        {"severity_id": 50},
        {"time": "now"},
        {"more": 1},
        {"status": "Success"},
        {"metadata": {"version": OCSF_VERSION}},
        {"type_uid": 1},
        {"http_request": {"url": {"scheme": "https"}}},
        {"dst_endpoint": {"port": 70_000}},
    ):
        assert published.faults({**good, **change})
    assert published.faults({name: each for name, each in good.items() if name != "class_uid"})
    del good["http_request"]
    assert published.faults(good)
