"""Class *peer*: the gateway's result about a session, and what both say of each other."""

from __future__ import annotations

from typing import Any

from vectors.cases.edits import WITHOUT, one
from vectors.making.documents import (
    EAR_EXTENSION,
    START,
    ear_before,
    identifier,
    with_tool_servers,
    with_turns,
)
from vectors.making.encoding import link
from vectors.making.faults import Fault, put
from vectors.making.keys import p256_key
from vectors.making.story import Story

__all__ = ["CASES"]

_EAR = {"peer.ear": "peer.ear_mismatch"}
_BOUND = {"peer.bound": "peer.unbound"}
_OTHER = link(b"another")
_CONFIGURATION = {"conf.bound": "conf.unbound"}
_NAME = "sha256:" + "1" * 64


def _result(**changes: Any) -> dict[str, Fault]:
    """The result's statement about the session, changed and signed."""

    def fault(payload: dict[str, Any]) -> dict[str, Any]:
        payload["submods"]["session"] |= changes
        return payload

    return {"document:session-ear": fault}


def _appraised(**changes: Any) -> dict[str, Fault]:
    """The extension of the result's statement, changed and signed."""

    def fault(payload: dict[str, Any]) -> dict[str, Any]:
        payload["submods"]["session"][EAR_EXTENSION] |= changes
        return payload

    return {"document:session-ear": fault}


def _without(member: str) -> Fault:
    """A result whose statement lacks a member."""

    def fault(payload: dict[str, Any]) -> dict[str, Any]:
        del payload["submods"]["session"][member]
        return payload

    return fault


def _both_names(payload: dict[str, Any]) -> dict[str, Any]:
    said = payload["submods"]["session"]
    payload["submods"]["session"] = {**ear_before(payload)["submods"]["session"], **said}
    return payload


def _earlier_with_later_profile(payload: dict[str, Any]) -> dict[str, Any]:
    return ear_before(payload) | {"eat_profile": payload["eat_profile"]}


def _elsewhere(story: Story) -> None:
    """This session's key at work under another session's id."""
    told = story.sessions["session"]
    record = told.gateway_records[1].payload
    names = ("req", "res", "mdl", "use", "pol", "up", "att")
    members = {name: record[name] for name in names}
    members["agt"] = {**record["agt"], "seq": 0, "ses": identifier("another session")}
    story.gateway_says("elsewhere", "inference", members)


def _second_result(change: Any) -> dict[str, Fault]:
    """The inference rests on a result of its own."""
    made: dict[str, str] = {}

    def make(story: Story) -> None:
        told = story.sessions["session"]
        made["link"] = link(story.issue_ear("second-ear", told.supervisor).encode())

    def members(value: dict[str, Any]) -> dict[str, Any]:
        value["att"] = {"ses": {"ear": made["link"], "tier": "none"}}
        return value

    return {"before:exec-outcome": make, "members:inference": members, **change}


def _gateway_result(payload: dict[str, Any]) -> dict[str, Any]:
    payload["submods"] = {"gateway": payload["submods"]["session"]}
    return payload


def _upstream(**members: str) -> Fault:
    def fault(payload: dict[str, Any]) -> dict[str, Any]:
        payload["up"] = [{**payload["up"][0], **members}]
        return payload

    return fault


def _both_ways(config: dict[str, Any]) -> dict[str, Any]:
    config = with_tool_servers(config)
    config["mcp_servers"][1]["url"] = "https://k8s.invalid/mcp"
    return config


def _nobody_asks(config: dict[str, Any]) -> dict[str, Any]:
    config = with_turns(config)
    config["upstreams"][0]["concurrent"] = 0
    return config


def _one_name(config: dict[str, Any]) -> dict[str, Any]:
    config = with_tool_servers(config)
    config["mcp_servers"][1]["id"] = config["mcp_servers"][0]["id"]
    return config


def _attesting(config: dict[str, Any]) -> dict[str, Any]:
    config["upstreams"] = [{**config["upstreams"][0], "bind": "attested"}]
    return config


def _without_result(bundle: dict[str, Any]) -> dict[str, Any]:
    bundle["results"] = {}
    return bundle


def _without_result_key(statement: dict[str, Any]) -> dict[str, Any]:
    return statement | {"keys": [key for key in statement["keys"] if key["use"] != "ear"]}


CASES = (
    one(
        "peer/result-missing",
        "The bundle does not carry the result that the records name.",
        {"bundle": _without_result},
        {},
        not_made=("bundle.objects", "tee.appraisal"),
    ),
    one(
        "peer/result-named-otherwise",
        "A record names a result that the bundle does not carry.",
        {"members:inference": put(att__ses__ear=_OTHER)},
        {},
        not_made=("bundle.objects", "peer.ear"),
    ),
    one(
        "peer/tier-higher-than-evidence",
        "The result says affirming of simulated evidence.",
        _result(ear_status="affirming"),
        _EAR,
    ),
    one(
        "peer/tier-higher-than-result",
        "The record repeats a better tier than its result has.",
        {"members:inference": put(att__ses__tier="affirming")},
        _EAR,
    ),
    one(
        "peer/tier-higher-than-evidence-everywhere",
        "The result says affirming of simulated evidence, and every record repeats it.",
        {
            **_result(ear_status="affirming"),
            "members:start": put(att__ses__tier="affirming"),
            "members:inference": put(att__ses__tier="affirming"),
        },
        _EAR,
    ),
    one("peer/result-class", "The result says hardware.", _appraised(cls="hardware"), _EAR),
    one("peer/result-status", "The result has another TCB status.", _appraised(tcb="OutOfDate"), _EAR),
    one("peer/result-evidence", "The result is of other evidence.", _appraised(evd=_OTHER), _EAR),
    one(
        "peer/result-policy",
        "The result was judged by other reference values.",
        _result(ear_appraisal_policy_ids=[_NAME]),
        _EAR,
    ),
    one(
        "peer/result-expired",
        "The result had ended when the record was signed.",
        _appraised(until=START - 1),
        _EAR,
    ),
    one(
        "peer/result-of-another-peer",
        "The inference rests on a result about a gateway.",
        _second_result({"document:second-ear": _gateway_result}),
        _EAR,
    ),
    one(
        "peer/result-about-nobody",
        "A result without a peer that it could be about.",
        _second_result({"document:second-ear": put(submods={})}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-profile",
        "A result of a profile that is not known.",
        _second_result({"document:second-ear": put(eat_profile="tag:affiant.dev,2026:ear/2")}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-of-an-earlier-draft",
        "A result of the draft's revision before.",
        _second_result({"document:second-ear": put(eat_profile="tag:ietf.org,2026:rats/ear#03")}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-extension-undeclared",
        "A result with our extension, without the profile that declares it.",
        _second_result({"document:second-ear": _without("eat_profile")}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-without-extension",
        "A result that does not say which evidence it is of.",
        _second_result({"document:second-ear": _without(EAR_EXTENSION)}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-of-two-names",
        "A result that says the same under the draft's names and under the earlier ones.",
        _second_result({"document:second-ear": _both_names}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-earlier-names-later-profile",
        "A result with the earlier names that claims the draft's profile.",
        _second_result({"document:second-ear": _earlier_with_later_profile}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-empty-vector",
        "A result whose vector says nothing at all: the draft's grammar has no such vector.",
        _second_result({"document:second-ear": put(submods__session__ear_trustworthiness_vector={})}),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-unknown-claim",
        "A result whose vector has a claim that AR4SI does not.",
        _second_result(
            {"document:second-ear": put(submods__session__ear_trustworthiness_vector={"luck": 2})}
        ),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-two-policies",
        "A result that names two sets of reference values.",
        _second_result(
            {"document:second-ear": put(submods__session__ear_appraisal_policy_ids=[_NAME, _NAME])}
        ),
        {"peer.ear": "fmt.profile"},
    ),
    one(
        "peer/result-of-another-signer",
        "A result signed by a key that is not the gateway's for results.",
        _second_result({"key:second-ear": lambda _: p256_key("gateway receipt")}),
        {"peer.ear": "fmt.jws"},
    ),
    one(
        "peer/result-typ",
        "A result whose header calls it a receipt.",
        _second_result({"header:second-ear": lambda data: data.replace(b"affiant-ear+jwt", b"eat+jwt")}),
        {"peer.ear": "fmt.jws"},
    ),
    one(
        "peer/rests-on-nothing",
        "An answer that rests on no result.",
        {"members:inference": put(att={})},
        _EAR,
    ),
    one("peer/no-upstream", "An answer that came from no upstream.", {"members:inference": put(up=[])}, _EAR),
    one(
        "peer/upstream-called-attested",
        "An upstream that is called attested, on the word of no result.",
        {"members:inference": _upstream(bind="attested"), "document:config": _attesting},
        _EAR,
        trust="trust-any-configuration.json",
    ),
    one(
        "peer/upstream-bound-otherwise",
        "An upstream that the record calls attested, and the configuration does not.",
        {"members:inference": _upstream(bind="attested")},
        _CONFIGURATION,
    ),
    one(
        "peer/upstream-not-configured",
        "An upstream that the gateway's configuration does not have.",
        {"members:inference": _upstream(id="elsewhere")},
        _CONFIGURATION,
    ),
    one(
        "peer/upstream-at-another-host",
        "An upstream of the configuration, at another host.",
        {"members:inference": _upstream(host="elsewhere.invalid")},
        _CONFIGURATION,
    ),
    one(
        "peer/tool-server-reached-two-ways",
        "A gateway's configuration whose server of tools has both an address and a command.",
        {"document:config": _both_ways},
        {"conf.bound": "fmt.profile"},
        trust="trust-any-configuration.json",
    ),
    one(
        "peer/tool-servers-of-one-name",
        "A gateway's configuration with two servers of tools of one id.",
        {"document:config": _one_name},
        {"conf.bound": "fmt.profile"},
        trust="trust-any-configuration.json",
    ),
    one(
        "peer/configuration-nobody-asks",
        "A gateway's configuration lets its upstream be asked nothing at once.",
        {"document:config": _nobody_asks},
        {"conf.bound": "fmt.profile"},
        trust="trust-any-configuration.json",
    ),
    one(
        "peer/result-about-an-upstream",
        "A result about the upstream, which this version does not judge and does not pass over.",
        {"members:inference": put(att__ups={"ear": _OTHER, "tier": "affirming"})},
        {},
        not_made=("bundle.objects", "peer.ear"),
    ),
    one(
        "peer/another-session-key",
        "A record that names another session key.",
        {"members:inference": put(agt__key=_OTHER)},
        _BOUND,
        not_made=("bundle.objects",),
    ),
    one(
        "peer/another-session-evidence",
        "A record that names other evidence of the session.",
        {"members:inference": put(agt__evd=_OTHER)},
        _BOUND,
        not_made=("bundle.objects",),
    ),
    one(
        "peer/bearer",
        "A request that came without a proof of possession.",
        {"members:inference": put(agt__bind="bearer")},
        _BOUND,
    ),
    one(
        "peer/another-gateway",
        "The session appraised another gateway's keyset.",
        {"document:session-statement": put(gks=_OTHER)},
        _BOUND,
        not_made=("bundle.objects", "log.inclusion"),
    ),
    one(
        "peer/boot-of-another-gateway",
        "The session's boot record names another gateway's keyset than the session's own keyset does.",
        {"members:session-boot": put(gks=_OTHER)},
        _BOUND,
        not_made=("bundle.objects",),
    ),
    one(
        "peer/no-boot-of-session",
        "The supervisor's boot record, which names the gateway that it appraised, is left out.",
        {"withhold:session-boot": WITHOUT},
        _BOUND | {"chain.boot": "chain.no_boot"},
    ),
    one(
        "peer/no-key-for-results",
        "The gateway's keyset names no key for results: nothing can be said by one.",
        {"document:gateway-statement": _without_result_key},
        {},
        not_made=("tee.appraisal",),
    ),
    one(
        "peer/start-manifest",
        "The start names another manifest.",
        {"members:start": put(man__man=_OTHER)},
        _BOUND,
    ),
    one(
        "peer/start-activation",
        "The start names another activation.",
        {"members:start": put(man__act=_OTHER)},
        _BOUND,
    ),
    one(
        "peer/start-input",
        "The start names an input that was not activated.",
        {"members:start": put(inp=_NAME)},
        _BOUND,
    ),
    one(
        "peer/start-issuer",
        "The start names another issuer of its starter's name.",
        {"members:start": put(ini__iss="https://accounts.invalid")},
        _BOUND,
    ),
    one(
        "peer/start-method",
        "The start names another way in which its starter authenticated.",
        {"members:start": put(ini__method="oidc")},
        _BOUND,
    ),
    one(
        "peer/start-subject",
        "The start discloses another starter than was activated.",
        {"hidden:start": put(ini__sub=_OTHER)},
        _BOUND,
    ),
    one(
        "peer/supervisor-build",
        "A supervisor of another build than the manifest's.",
        {"members:session-boot": put(bld=_NAME)},
        _BOUND,
    ),
    one(
        "peer/key-under-another-session",
        "The session's key under another session's id, where nobody would look.",
        {"before:finis": _elsewhere},
        _BOUND,
    ),
    one(
        "peer/manifest-for-another-log",
        "The session's manifest names another log than the configuration that it names.",
        {"document:session-manifest": put(gateway__origin="another.log.invalid")},
        {"conf.accepted": "conf.not_accepted"},
    ),
    one(
        "peer/manifest-for-another-gateway",
        "The session's manifest is made for another configuration.",
        {"document:session-manifest": put(gateway__config=_NAME)},
        {"conf.accepted": "conf.not_accepted"},
    ),
)
