"""A decision as OpenTelemetry attributes, and as OTLP/JSON that Protocol Buffers' own mapping reads."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import example, given
from tests.policy.replay.recorded import DIGEST, LINES, lines, recorded
from tests.properties import thorough
from tests.raising import raises_code

from affiant.policy.replay.members import encoded
from affiant.policy.replay.otel import EVENT_NAME, decision_attributes, otlp_logs


def line(request: str) -> Mapping[str, object]:
    return next(each for each in LINES if each["request"] == request)


def test_a_denied_request_has_the_policy_s_attributes_and_http_s():
    found = decision_attributes(recorded(line("POST https://api.b.com/v1/items")))
    assert found == {
        "affiant.agent.name": "dev",
        "affiant.policy.decision": "deny",
        "affiant.policy.digest": DIGEST,
        "affiant.policy.latency_us": 7,
        "affiant.policy.plane": "egress",
        "affiant.policy.reason": "method_not_listed",
        "affiant.policy.request": "POST https://api.b.com/v1/items",
        "affiant.session.id": "s-1",
        "gen_ai.agent.name": "dev",
        "http.request.body.size": 12,
        "http.request.method": "POST",
        "server.address": "api.b.com",
        "server.port": 443,
        "url.path": "/v1/items",
        "url.scheme": "https",
    }


def test_other_planes_have_their_conventions():
    assert decision_attributes(recorded(line("model:big")))["gen_ai.request.model"] == "big"
    assert decision_attributes(recorded(line("read:/workspace/a b")))["file.path"] == "/workspace/a b"
    assert decision_attributes(recorded(line("secret:KEY@api.b.com")))["server.port"] == 443
    purge = decision_attributes(recorded(line("PURGE https://api.b.com/")), places={"egress/2": "p.yaml:3:1"})
    assert (purge["http.request.method"], purge["http.request.method_original"]) == ("_OTHER", "PURGE")
    assert purge["affiant.policy.rule"] == ("egress/0", "egress/2")
    assert purge["affiant.policy.rule.where"] == ("", "p.yaml:3:1")
    assert decision_attributes(recorded(line("tool:?@?")))["affiant.policy.offered"] is True


def test_the_table_of_the_documentation_has_every_attribute():
    page = (Path(__file__).parents[3] / "docs" / "decision-logs.md").read_text()
    for members in LINES:
        document = otlp_logs(recorded(members), source="d", version="1", places={"egress/0": "p:1"})
        for name in re.findall(r'"key":"([a-z_.]+)"', encoded(document)):
            assert f"`{name}`" in page or name.startswith("service."), name


@thorough(50)
@given(lines())
def test_values_are_those_that_opentelemetry_knows(members):
    for name, value in decision_attributes(recorded(members)).items():
        assert name.isascii()
        assert isinstance(value, (str, bool, int)) or all(isinstance(each, str) for each in value)


def test_a_time_beyond_64_bits_of_nanoseconds_is_refused_and_no_time_is_none():
    with raises_code("policy.decision_event"):
        otlp_logs(recorded({**LINES[0], "ts": (1 << 64) // 10**9 + 1}), source="d", version="1")
    untimed = {name: value for name, value in LINES[0].items() if name != "ts"}
    document = encoded(otlp_logs(recorded(untimed), source="d", version="1"))
    assert "UnixNano" not in document


@thorough(50)
@given(lines())
@example(next(each for each in LINES if "attested" in each))
def test_protocol_buffers_read_every_log_record(members):
    json_format = pytest.importorskip("google.protobuf.json_format")
    logs_pb2 = pytest.importorskip("opentelemetry.proto.logs.v1.logs_pb2")
    document = encoded(otlp_logs(recorded(members), source="d.jsonl", version="1.2"))
    assert "\n" not in document
    read = json_format.Parse(document, logs_pb2.LogsData())  # unknown members are refused
    (record,) = read.resource_logs[0].scope_logs[0].log_records
    assert record.time_unix_nano == members["ts"] * 10**9
    assert record.event_name == EVENT_NAME
    assert record.severity_number == (13 if members["decision"] == "deny" else 9)
    attributes = {each.key: each.value for each in record.attributes}
    assert len(attributes) == len(record.attributes)
    assert attributes["affiant.policy.request"].string_value == members["request"]
    if "attested" in members:
        assert attributes["affiant.policy.attested"].bool_value is True
    if "bytes" in members:
        assert attributes["http.request.body.size"].int_value == members["bytes"]
    if "rules" in members:
        texts = [each.string_value for each in attributes["affiant.policy.rule"].array_value.values]
        assert texts == members["rules"]
    assert json.loads(document)["resourceLogs"][0]["resource"]["attributes"][1]["value"] == {
        "stringValue": "1.2"
    }
