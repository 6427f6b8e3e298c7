"""A baseline policy that the caller names: the published profiles run unchanged under it, approvals included."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hypothesis import given
from hypothesis import strategies as st
from tests.policy.policies import policies
from tests.properties import thorough

from affiant.errors import AffiantError
from affiant.policy.canonical.errors import PolicyConflict
from affiant.policy.commands import policy
from affiant.policy.decision.decide import Effect
from affiant.policy.decision.questions import answer, parse_question
from affiant.policy.lint.lint import lint_profile
from affiant.policy.loading.load import load_baseline
from affiant.policy.loading.policy_file import policy_owners, read_policy_file, read_profiles, read_refusals
from affiant.policy.model.profile import EgressDenial, PathMode, Policy, ProviderToolDenial, ToolDenial
from affiant.policy.normal_form.digest import arranged, floor_digest, holds_floor, normal_form

SEED = Path(__file__).parents[2] / "policy" / "profiles" / "seed-profiles.yaml"
KEY = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
FLOOR = f"tools: [{{deny: kubectl_delete}}]\nrequires_human_approval: {{approvers: [{KEY}]}}\n"
ASKED = [
    "tool:run_terraform",
    'tool:kubectl_apply {"file": "a.yaml"}',
    "POST https://api.cloud-provider.com/v1/x",
    "secret:DEPLOY_KEY@api.cloud-provider.com",
]


@pytest.fixture
def floor(tmp_path: Path) -> Path:
    path = tmp_path / "org.yaml"
    path.write_text(FLOOR)
    return path


def refused(path: Path, floor: Path) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        read_profiles(path, floor=floor)
    return caught.value


@pytest.mark.parametrize("request_text", ASKED)
def test_the_published_deployment_agent_can_be_approved_and_is_always_denied_without_approvers(
    floor: Path, request_text: str
) -> None:
    question = parse_question(request_text)
    alone = answer(read_profiles(SEED).profile("deployment_agent").compiled, question)
    assert (alone.effect, alone.reason) == (Effect.DENY, "approval_no_approver")
    under = answer(read_profiles(SEED, floor=floor).profile("deployment_agent").compiled, question)
    assert (under.effect, under.reason) == (Effect.ASK, "approval_required")


def test_the_floors_digest_and_approvers_are_in_the_profiles_digest(floor: Path) -> None:
    alone = read_profiles(SEED).profile("deployment_agent")
    under = read_profiles(SEED, floor=floor).profile("deployment_agent")
    assert under.policy.floor == load_baseline(FLOOR.encode(), source="org.yaml").digest
    assert json.loads(under.normal_form)["approval"]["approvers"] == [KEY]
    assert under.digest != alone.digest


def test_it_is_the_profile_that_the_file_would_have_if_it_named_that_floor(
    floor: Path, tmp_path: Path
) -> None:
    named = tmp_path / "named.yaml"
    named.write_text(f"floor: org.yaml\n{SEED.read_text()}")
    assert read_profiles(named).profiles["deployment_agent"].digest == (
        read_profiles(SEED, floor=floor).profiles["deployment_agent"].digest
    )
    assert read_profiles(named, floor=floor).digest == read_profiles(named).digest


def test_a_file_that_names_another_floor_is_rejected_where_it_names_it(floor: Path, tmp_path: Path) -> None:
    (tmp_path / "other.yaml").write_text("tools: [{deny: rm}]")
    file = tmp_path / "p.yaml"
    file.write_text("floor: other.yaml\nagent_configs: {dev: {tools: [a]}}\n")
    error = refused(file, floor)
    assert (error.code, error.where) == ("policy.floor", "p.yaml:1:8")
    assert [each.code for each in read_refusals(file, floor=floor)] == ["policy.floor"]


def test_two_files_of_one_name_are_rejected_because_places_would_be_ambiguous(
    floor: Path, tmp_path: Path
) -> None:
    (tmp_path / "a").mkdir()
    file = tmp_path / "a" / "org.yaml"
    file.write_text("agent_configs: {dev: {}}")
    assert refused(file, floor).code == "policy.floor"


def test_an_error_in_the_floor_has_its_place_there(floor: Path) -> None:
    floor.write_text("tools: [run]\n")
    error = refused(SEED, floor)
    assert (error.code, error.where) == ("policy.floor", "org.yaml:1:9")


def test_a_floor_that_others_can_write_is_not_enforced(floor: Path) -> None:
    floor.chmod(0o666)
    with pytest.raises(AffiantError) as caught:
        read_policy_file(SEED, owners=policy_owners(os.geteuid(), {}), floor=floor)
    assert caught.value.code == "policy.file"


def test_merging_it_again_changes_nothing(floor: Path) -> None:
    baseline = load_baseline(floor.read_bytes(), source="org.yaml")
    assert baseline.digest is not None
    for profile in read_profiles(SEED, floor=floor).profiles.values():
        again = profile.policy.merged(baseline.policy, baseline.digest)
        assert normal_form(again) == profile.normal_form


def test_a_profile_that_is_full_with_the_floors_denials_contains_it(tmp_path: Path) -> None:
    """900 tools and 100 denials are the most that a list holds: merged again, they are not more."""
    (tmp_path / "org.yaml").write_text(f"tools: [{', '.join(f'{{deny: d{at}}}' for at in range(100))}]")
    file = tmp_path / "p.yaml"
    file.write_text(f"agent_configs: {{dev: {{tools: [{', '.join(f't{at}' for at in range(900))}]}}}}")
    profile = read_profiles(file, floor=tmp_path / "org.yaml").profile("dev")
    baseline = load_baseline((tmp_path / "org.yaml").read_bytes(), source="org.yaml")
    assert len(profile.policy.tools) == 1000
    assert holds_floor(profile.compiled.policy, baseline.policy)


def test_lint_no_longer_misses_an_approver(floor: Path) -> None:
    codes = {
        found.code for found in lint_profile(read_profiles(SEED, floor=floor).profile("deployment_agent"))
    }
    assert "approval_no_approver" not in codes


COMMANDS = {
    "can": ["{seed}", "deployment_agent"],
    "who-can": ["{seed}", "tool:run_terraform"],
    "lint": ["{seed}"],
    "digest": ["{seed}", "deployment_agent"],
    "show": ["{seed}", "deployment_agent"],
    "explain": ["{seed}", "deployment_agent", "tool:run_terraform"],
    "diff": ["{seed}", "{seed}"],
    "test": ["{seed}"],
    "compile": ["{seed}", "log_analyzer", "--target", "srt"],
    "rule": ["{seed}", "tools/0", "--agent", "deployment_agent"],
    "report": ["{seed}", "-o", "{new}.html"],
    "simulate": ["--log", "{log}", "{seed}"],
    "learn": ["--log", "{log}", "--from", "{seed}"],
    "decisions": ["{log}", "--profiles", "{seed}"],
    "sign": ["{seed}", "--key", "{key}", "-o", "{new}.sig.json"],
    "verify": ["{seed}", "--key", "{key}", "--signature", "{signature}"],
}
LINE = {"agent": "log_analyzer", "request": "tool:read_logs", "decision": "allow", "reason": "allowed"}


@pytest.fixture
def files(tmp_path: Path) -> dict[str, str]:
    """What commands need beside the published profiles; the signature is over these under the floor."""
    key = ec.generate_private_key(ec.SECP256R1())
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    public = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    for name, data in (
        ("key.pem", pem),
        ("pub.pem", public),
        ("log.jsonl", json.dumps(LINE).encode() + b"\n"),
    ):
        (tmp_path / name).write_bytes(data)
        (tmp_path / name).chmod(0o600)
    return {
        "seed": str(SEED),
        "log": str(tmp_path / "log.jsonl"),
        "new": str(tmp_path / "new"),
        "key": str(tmp_path / "key.pem"),
        "signature": str(tmp_path / "seed.sig.json"),
    }


def test_every_command_about_a_profile_file_is_among_those_that_are_tried() -> None:
    assert set(COMMANDS) == set(policy.commands) - {"schema"}


@pytest.mark.parametrize("given", ["option", "environment"])
@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_about_a_profile_file_takes_a_floor(
    floor: Path, files: dict[str, str], name: str, given: str
) -> None:
    run = CliRunner()

    def under(path: str) -> Result:
        command = [name, *(each.format_map(files) for each in COMMANDS[name])]
        if given == "option":
            return run.invoke(policy, [*command, "--floor", path])
        return run.invoke(policy, command, env={"AFFIANT_FLOOR": path})

    if name == "verify":
        signed = ["sign", str(SEED), "--key", files["key"], "-o", files["signature"], "--floor", str(floor)]
        assert run.invoke(policy, signed).exit_code == 0
        files["key"] = files["key"].replace("key.pem", "pub.pem")
    missing, found = under("/nowhere/org.yaml"), under(str(floor))
    assert missing.exit_code == 1 and "org.yaml" in f"{missing.output}{missing.exception}", "it is read"
    assert isinstance(found.exception, SystemExit | None) and found.exit_code != 2, found.output


@pytest.mark.parametrize(
    "command",
    [["decisions", "{log}"], ["learn", "--log", "{log}"], ["diff", "--normal-forms", "{log}", "{log}"]],
)
def test_a_floor_under_which_nothing_is_read_is_a_wrong_command_line(
    floor: Path, files: dict[str, str], command: list[str]
) -> None:
    command = [each.format_map(files) for each in command]
    done = CliRunner().invoke(policy, [*command, "--floor", str(floor)])
    said = " ".join(done.output.split())
    assert (
        done.exit_code == 2 and "`--floor` has no effect here, because the command reads no profile" in said
    )
    inherited = CliRunner().invoke(policy, command, env={"AFFIANT_FLOOR": str(floor)})
    assert inherited.exit_code != 2 and "reads no profile" not in inherited.output


def test_can_names_the_approver_and_explain_says_that_approval_is_needed(floor: Path) -> None:
    run = CliRunner().invoke
    assert KEY in run(policy, ["can", str(SEED), "deployment_agent", "--floor", str(floor)]).output
    explained = run(
        policy, ["explain", str(SEED), "deployment_agent", ASKED[2], "--floor", str(floor), "--json"]
    )
    assert json.loads(explained.output)["reason"] == "approval_required"


def test_a_page_shows_the_floors_source(floor: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    result = CliRunner().invoke(policy, ["report", str(SEED), "--floor", str(floor), "-o", str(page)])
    assert result.exit_code == 0, result.output
    assert "org.yaml" in page.read_text()


DENIES = (ToolDenial, ProviderToolDenial, EgressDenial)


def denials_of(policy: Policy) -> Policy:
    """What of ``policy`` a baseline policy could hold."""
    return arranged(
        Policy(
            tools=tuple(rule for rule in policy.tools if isinstance(rule, DENIES)),
            provider_tools=tuple(rule for rule in policy.provider_tools if isinstance(rule, DENIES)),
            filesystem=tuple(rule for rule in policy.filesystem if rule.mode is PathMode.NONE),
            egress=tuple(rule for rule in policy.egress if isinstance(rule, DENIES)),
            approval=policy.approval,
            limits=policy.limits,
        )
    )


@thorough(80)
@given(policies(), policies(), st.data())
def test_a_profile_contains_what_was_merged_into_it_and_nothing_less(
    own: Policy, other: Policy, data: st.DataObject
) -> None:
    floor = denials_of(other)
    try:
        merged = arranged(own.merged(floor, floor_digest(floor)))
    except PolicyConflict:  # other approvers, or a token endpoint that is denied
        return
    assert holds_floor(merged, floor)
    section = data.draw(st.sampled_from(["tools", "provider_tools", "filesystem", "egress"]))
    for rule in getattr(floor, section):
        less = tuple(each for each in getattr(merged, section) if each != rule)
        assert not holds_floor(replace(merged, **{section: less}), floor)
    for lacking in (replace(merged, floor=None), replace(merged, floor="sha384:" + "0" * 96)):
        assert not holds_floor(lacking, floor)
    if floor.approval.everything:
        approval = replace(merged.approval, everything=False)
        assert not holds_floor(replace(merged, approval=approval), floor)
