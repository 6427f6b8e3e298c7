"""Decisions of a policy: of canonical requests, with their canonical form and a log line; and 200 profiles from cold.

The same requests are asked of Cedar's engine (cedarpy, with our own export) and of a bundle of Rego (regopy), and all
three must give the same answers, or nothing is measured. Timed is this process's own time, so that other work on the
machine is not counted. Cedar and Rego are general languages with types, entities and rules of one's own; ours can say
nothing but profiles. A ratio says what that restraint buys, not which is better.
"""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median, quantiles

from affiant.policy.canonical.hosts import canonical_host
from affiant.policy.canonical.targets import canonical_target
from affiant.policy.decision.compiled import CompiledPolicy, compile_policy
from affiant.policy.decision.decide import Decision, Effect
from affiant.policy.decision.questions import (
    EgressQuestion,
    ModelQuestion,
    PathQuestion,
    Question,
    ToolQuestion,
)
from affiant.policy.decision_log.reader import read_decision_log
from affiant.policy.decision_log.record import DecidedBy, decision_line
from affiant.policy.loading.load import load_profiles
from affiant.policy.loading.profile_set import Profile
from affiant.policy.model.profile import PathMode, Scheme
from benchmarks.rego_policy import RegoBundle
from benchmarks.timing import Figure

sys.path.insert(0, str(Path(__file__).parents[1]))

PROFILE = """
    tools: [read_file, write_file, run_tests, {name: deploy, approval: true}, {deny: delete_cluster}]
    filesystem_access: [read:/workspace, "read-write:/workspace/out", {path: /workspace/secrets, mode: none}]
    network_egress:
      - {host: api.example.com, methods: [GET, POST], paths: ["/v1/acme/**", /health]}
      - {host: "*.cdn.example.com", methods: [GET]}
      - {host: "**.packages.example.org"}
      - {deny: api.example.com, paths: ["/v1/acme/billing/**"]}
    models: [small-model, {name: big-model, upstream: attested}]
    requires_human_approval: {egress: [POST]}
"""
ONE_RULE = """
    network_egress: [{host: api.example.com, methods: [GET], paths: ["/v1/acme/**"]}]
"""
ROUNDS = 40
BATCH = 20
NOTE = (
    "Cedar and Rego are general languages; ours says profiles and nothing else. The ratios say what that buys, "
    "not which is better."
)


def measure() -> list[Figure]:
    print(NOTE, file=sys.stderr)
    profile = load_profiles(f"agent_configs:\n  dev:{PROFILE}".encode()).profile("dev")
    policy = compile_policy(profile.compiled.policy, asks=True)
    questions = _questions()
    core = _percentiles([_core(policy, question) for question in questions], BATCH)
    whole = _percentiles([_recorded(policy, question) for question in questions], BATCH)
    best, best_ours = _one_policy()
    cedar = _cedar(profile, policy, questions)
    rego = _rego(policy, questions)
    peers = [("one rule", best_ours, "cedarpy, one policy", best)]
    peers.append(("core decisions", core[0], "cedarpy, one profile", cedar[0]))
    if rego is not None:
        peers.append(("core decisions", core[0], "a regopy bundle", rego[0]))
    figures = [
        Figure(name, 1e6 / ours, "per second", peer, 1e6 / theirs) for name, ours, peer, theirs in peers
    ]
    figures.append(Figure("core decision, p50", core[0], "us", "its p99", core[1]))
    figures.append(Figure("canonical, recorded, p50", whole[0], "us", "its p99", whole[1]))
    cold, parsed = _cold()
    figures.append(Figure("200 profiles, cold", cold, "ms", "libyaml's events alone", parsed))
    return figures


def _questions() -> list[Question]:
    """Requests of every plane, allowed, asked and denied; no two alike."""
    found: list[Question] = [
        ToolQuestion(name)
        for name in ("read_file", "run_tests", "deploy", "delete_cluster", "rm", "Read_File")
    ]
    found += [ModelQuestion(name) for name in ("small-model", "big-model", "other-model")]
    for number in range(12):
        for path in (
            f"/workspace/src/module_{number}.py",
            f"/workspace/secrets/{number}",
            f"/etc/file-{number}",
        ):
            found.append(PathQuestion(path, PathMode.READ))
        found.append(PathQuestion(f"/workspace/out/build/{number}.o", PathMode.READ_WRITE))
        for method, host, target in (
            ("GET", "api.example.com", f"/v1/acme/items/{number}?page=2"),
            ("POST", "api.example.com", f"/v1/acme/orders/{number}"),
            ("GET", "api.example.com", f"/v1/acme/billing/{number}"),
            ("DELETE", "api.example.com", f"/v1/acme/items/{number}"),
            ("GET", f"n{number}.cdn.example.com", f"/assets/{number}.js"),
            ("GET", f"a.b{number}.packages.example.org", f"/simple/package-{number}/"),
            ("GET", f"host{number}.elsewhere.net", "/"),
        ):
            found.append(EgressQuestion(host, 443, Scheme.HTTPS, method, target))
            found.append(EgressQuestion(host, 443, Scheme.HTTPS))
    return found


def _core(policy: CompiledPolicy, question: Question) -> Callable[[], Decision]:
    """The decision of a request that is canonical already, as gateway and proxy ask for it."""
    match question:
        case ToolQuestion(name):
            return lambda: policy.decide_tool(name)
        case ModelQuestion(name):
            return lambda: policy.decide_model(name)
        case PathQuestion(path, mode):
            return lambda: policy.decide_path(path, mode)
        case EgressQuestion(host, port, scheme, method, target):
            text = scheme.value
            return lambda: policy.decide_egress(
                host=host, port=port, scheme=text, method=method, target=target
            )
        case _:
            raise AssertionError(question)


def _recorded(policy: CompiledPolicy, question: Question) -> Callable[[], bytes]:
    """The same from what a client sent, to the line of a decision log."""
    by = DecidedBy(session="s-1", policy_digest=policy.digest, agent="dev")
    core = _core(policy, question)
    if not isinstance(question, EgressQuestion):
        make = type(question)
        arguments = (question.path, question.mode) if isinstance(question, PathQuestion) else (question.name,)  # type: ignore[union-attr]
        return lambda: decision_line(by, make(*arguments), core(), ts=1_800_000_000)
    sent, port, scheme, method = question.host + ".", question.port, question.scheme, question.method
    raw = None if question.target is None else question.target.encode()

    def recorded() -> bytes:
        host = canonical_host(sent)
        target = None if raw is None else canonical_target(raw)
        asked = EgressQuestion(host, port, scheme, method, target)
        decision = policy.decide_egress(host=host, port=port, scheme="https", method=method, target=target)
        return decision_line(by, asked, decision, ts=1_800_000_000)

    list(read_decision_log([recorded()]))  # it is one
    return recorded


def _percentiles(calls: Sequence[Callable[[], object]], batch: int) -> tuple[float, float]:
    """Microseconds of one call over the calls and rounds: p50 in batches, because the clock is slow, p99 singly."""
    for call in calls:
        call()
    middle = median(_timed(call, batch) for _ in range(ROUNDS) for call in calls) - _empty(batch)
    singly = [_timed(call, 1) for _ in range(ROUNDS) for call in calls]
    return middle / 1000, (quantiles(singly, n=100)[98] - _empty(1)) / 1000


def _empty(batch: int) -> float:
    return median(_timed(lambda: None, batch) for _ in range(2000))


def _timed(call: Callable[[], object], batch: int) -> float:
    begin = time.process_time_ns()
    for _ in range(batch):
        call()
    return (time.process_time_ns() - begin) / batch


# -- the peers ---------------------------------------------------------------------------------------------------------


def _cedar(profile: Profile, policy: CompiledPolicy, questions: Sequence[Question]) -> tuple[float, float]:
    """Our export in Cedar's engine: policies and entities parsed before, no schema at the request."""
    import cedarpy  # noqa: PLC0415 - an extra
    from tests.policy.exports.cedar_requests import Asked, Cedar  # noqa: PLC0415 - needs cedarpy

    cedar = Cedar(Profile(profile.name, policy, profile.mark, profile.places))
    asked = [Asked(question) for question in questions]
    for each, theirs in cedar.answers(asked):
        _agree("Cedar", each.question, _core(policy, each.question)().effect, theirs)
    policies = cedarpy.PolicySet.from_str(cedar.export.documents[0].text)
    entities = cedarpy.Entities.from_json_str("[]")
    calls = [_cedar_call(cedar.request(each), policies, entities) for each in asked]
    return _percentiles(calls, 1)


def _one_policy() -> tuple[float, float]:
    """Cedar's best case, a set of one policy, and ours with the one rule that it says; both allow."""
    import cedarpy  # noqa: PLC0415 - an extra
    from tests.policy.exports.cedar_requests import Asked, Cedar  # noqa: PLC0415 - needs cedarpy

    profile = load_profiles(f"agent_configs:\n  dev:{ONE_RULE}".encode()).profile("dev")
    question = EgressQuestion("api.example.com", 443, Scheme.HTTPS, "GET", "/v1/acme/items")
    cedar = Cedar(profile)
    text = next(
        policy
        for policy in cedar.export.documents[0].text.split("@id")
        if "permit (" in policy and '::"request"' in policy
    )
    policies = cedarpy.PolicySet.from_str("@id" + text)
    call = _cedar_call(cedar.request(Asked(question)), policies, cedarpy.Entities.from_json_str("[]"))
    ours = _core(profile.compiled, question)
    _agree("Cedar", question, ours().effect, Effect.ALLOW if call().allowed else Effect.DENY)  # type: ignore[attr-defined]
    return _percentiles([call], 1)[0], _percentiles([ours], BATCH)[0]


def _cedar_call(request: object, policies: object, entities: object) -> Callable[[], object]:
    import cedarpy  # noqa: PLC0415 - an extra

    assert isinstance(request, dict)
    context = request["context"]
    asks = '"read_path"' not in request["action"] and '"use_model"' not in request["action"]
    whole = {**request, "context": {**context, "approved": False} if asks else context}
    return lambda: cedarpy.is_authorized(whole, policies, entities)


def _rego(policy: CompiledPolicy, questions: Sequence[Question]) -> tuple[float, float] | None:
    if importlib.util.find_spec("regopy") is None:
        print("regopy is not installed here: no figure of Rego", file=sys.stderr)
        return None
    bundle = RegoBundle(policy.normal_form)
    for question in questions:
        _agree("Rego", question, _core(policy, question)().effect, Effect(bundle.call(question)()))
    calls = [bundle.call(question) for question in questions[:: len(questions) // 40]]
    return _percentiles(calls, 1)


def _agree(who: str, question: Question, ours: Effect, theirs: Effect | None) -> None:
    if ours is not theirs:
        raise RuntimeError(f"{who} says {theirs} where we say {ours}: {question}")


# -- cold --------------------------------------------------------------------------------------------------------------

COLD = """
import sys, time
from affiant.policy.loading.load import load_profiles
data = sys.stdin.buffer.read()
begin = time.process_time()
load_profiles(data)
print(time.process_time() - begin)
"""


def _cold() -> tuple[float, float]:
    """Milliseconds: 200 profiles loaded, checked, compiled and digested in a new process; libyaml on the same text."""
    text = "agent_configs:\n" + "".join(
        f"  agent_{number}:{PROFILE.replace('acme', f'acme{number}').replace('run_', f'run{number}_')}"
        for number in range(200)
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", COLD]
    loaded = [
        float(
            subprocess.run(
                command, input=text.encode(), env=environment, check=True, capture_output=True
            ).stdout
        )
        for _ in range(9)
    ]
    parsed = []
    for _ in range(9):
        begin = time.process_time()
        _events(text)
        parsed.append(time.process_time() - begin)
    return median(loaded) * 1000, median(parsed) * 1000


def _events(text: str) -> None:
    from yaml._yaml import CParser  # noqa: PLC0415 - libyaml's own parser

    parser = CParser(text)
    while parser.get_event() is not None:
        pass
