"""What is decided before anything starts, and every refusal with the place of the mistake."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import ec
from tests.attestation.statements.test_gateway_config import NOT_AN_UPSTREAM
from tests.raising import raises_code

from affiant.attestation.signatures.profiles.envelope import sign_envelope
from affiant.attestation.signatures.profiles.errors import ProfileSignatureOther
from affiant.attestation.signatures.profiles.private_keys import SigningKey
from affiant.attestation.signatures.profiles.signing_keys import ProfileKey
from affiant.errors import AffiantError
from affiant.policy.decision.decide import Effect
from affiant.policy.loading.policy_file import read_profiles
from affiant.policy.signing.signatures import signed_profiles
from affiant.sandbox.isolation.backends.backend import NEEDS_ROOT, Availability
from affiant.sandbox.isolation.plan.isolation_class import BackendName, IsolationClass
from affiant.sandbox.processes.services import GatewayChoice
from affiant.sandbox.session.limits_in_force import limits_and_mechanisms
from affiant.sandbox.session.session_plan import SessionPlan, SessionRequest, plan_session

PROFILES = b"""agent_configs:
  reader:
    tools: [read_logs]
    filesystem_access: "read-only:/var/log"
    network_egress: denied
    secrets_access: []
  writer:
    tools: [write_file]
    filesystem_access: "read-write:/workspace"
    network_egress: denied
    secrets_access: []
  homeless:
    tools: [think]
    network_egress: denied
    secrets_access: []
  two_places:
    tools: [copy]
    filesystem_access: ["read-only:/in", "read-write:/out"]
    network_egress: denied
    secrets_access: []
"""


OWNERS = frozenset({0, os.geteuid()})


def both() -> Mapping[BackendName, Availability]:
    return {name: Availability(name, "1", ()) for name in BackendName}


def bubblewrap_only() -> Mapping[BackendName, Availability]:
    return {
        BackendName.GVISOR: Availability(BackendName.GVISOR, "", ("runsc is not installed",)),
        BackendName.BUBBLEWRAP: Availability(BackendName.BUBBLEWRAP, "1", ()),
    }


@pytest.fixture
def plan(tmp_path: Path):
    (tmp_path / "profiles.yaml").write_bytes(PROFILES)
    (tmp_path / "in").mkdir()

    def make(agent: str, probe=both, **members) -> SessionPlan:
        request = SessionRequest(**{"profile": tmp_path / "profiles.yaml", "agent": agent, **members})
        return plan_session(
            request, session="A" * 22, folder=tmp_path / "session", probe=probe, owners=OWNERS
        )

    return make


def test_the_only_listed_path_takes_the_input(plan, tmp_path):
    found = plan("reader", input=tmp_path / "in")
    assert found.place == "/var/log"
    assert found.sandbox.source_of("/var/log") == "files/0"


def test_the_strongest_isolation_is_taken_whatever_the_floor(plan):
    assert plan("reader", min_isolation=IsolationClass.NAMESPACE).backend is BackendName.GVISOR
    lowered = plan("reader", probe=bubblewrap_only, min_isolation=IsolationClass.NAMESPACE)
    assert lowered.backend is BackendName.BUBBLEWRAP


def test_the_release_of_gvisor_goes_into_the_plan_and_no_other_isolations(plan):
    def dated() -> Mapping[BackendName, Availability]:
        text = "runsc version 0.0~20240729.0"
        return {name: Availability(name, text, ()) for name in BackendName}

    assert plan("reader", probe=dated).release == "20240729.0"
    assert plan("reader").release is None  # a build that does not say its release
    lowered = plan("reader", probe=bubblewrap_only, min_isolation=IsolationClass.NAMESPACE)
    assert lowered.release is None


def test_an_isolation_below_the_floor_is_refused_with_the_way_out(plan):
    with pytest.raises(AffiantError, match="--min-isolation namespace") as refused:
        plan("reader", probe=bubblewrap_only)
    assert refused.value.code == "isolation.unavailable"


def without_root() -> Mapping[BackendName, Availability]:
    return {
        BackendName.GVISOR: Availability(BackendName.GVISOR, "1", (NEEDS_ROOT,)),
        BackendName.BUBBLEWRAP: Availability(BackendName.BUBBLEWRAP, "1", ()),
    }


@pytest.mark.parametrize("url", NOT_AN_UPSTREAM)
def test_an_address_that_is_no_model_servers_is_found_before_anything_starts(plan, url: str):
    with pytest.raises(AffiantError) as refused:
        plan("reader", gateway=GatewayChoice(upstreams=("https://model.example/v1", url)))
    assert refused.value.code == "session.upstream"
    assert "--upstream" in str(refused.value)
    assert "hunter2" not in str(refused.value)


def test_gvisor_that_only_lacks_root_is_not_to_be_installed(plan):
    with pytest.raises(AffiantError, match="gVisor needs root") as refused:
        plan("reader", probe=without_root)
    assert "--min-isolation namespace" in str(refused.value)
    assert "install" not in str(refused.value)
    assert str(refused.value).count("gVisor needs root") == 1


BAD = [
    ({"agent": "raeder"}, "policy.unknown_agent", "reader"),
    ({"agent": "homeless", "input": "in"}, "session.input", "List a path"),
    ({"agent": "two_places", "input": "in"}, "session.input", "/in, /out"),
    ({"agent": "two_places", "output": "out"}, "session.input", "--input DIR:PATH"),
    ({"agent": "reader", "output": "out"}, "session.input", "read-write"),
    ({"agent": "reader", "input": "missing"}, "session.input", "missing"),
    ({"agent": "reader", "input": "profiles.yaml"}, "session.input", "no folder"),
    ({"agent": "reader", "input": "in", "input_at": "/etc"}, "isolation.plan", "/etc"),
    ({"agent": "reader", "input": "in", "input_at": "/var/log/../../etc"}, "isolation.plan", "canonical"),
    ({"agent": "reader", "runtime": "missing"}, "session.input", "runtime"),
    ({"agent": "reader", "rootfs": "missing"}, "session.input", "rootfs"),
    ({"agent": "reader", "extra_roots": ("profiles.yaml",)}, "session.extra_ca", "PEM"),
    ({"agent": "reader", "hosts": {"db.internal": ["nowhere"]}}, "session.host", "NAME=ADDRESS"),
    ({"agent": "reader", "hosts": {"db..internal": ["10.0.0.1"]}}, "policy.host", "db..internal"),
    ({"agent": "reader", "profile": "missing.yaml"}, "policy.file", "missing.yaml"),
]


@pytest.mark.parametrize(("members", "code", "text"), BAD)
def test_what_cannot_work_is_refused_before_anything_starts(plan, tmp_path, members, code, text):
    paths = {
        name: tmp_path / value
        for name, value in members.items()
        if name in {"input", "output", "runtime", "rootfs", "profile"}
    }
    if "extra_roots" in members:
        paths["extra_roots"] = tuple(tmp_path / name for name in members["extra_roots"])
    given = {**members, **paths}
    with pytest.raises(AffiantError) as refused:
        plan(given.pop("agent"), **given)
    assert refused.value.code == code
    assert text in str(refused.value)


def test_a_malformed_profile_is_refused_at_its_line(plan, tmp_path):
    (tmp_path / "bad.yaml").write_bytes(PROFILES.replace(b"network_egress", b"network_ingress", 1))
    with pytest.raises(AffiantError, match=r"bad\.yaml:5:5"):
        plan("reader", profile=tmp_path / "bad.yaml")


@pytest.mark.parametrize("what", ["profiles.yaml", "floor.yaml"])
def test_a_profile_that_everybody_could_have_written_is_not_enforced(plan, tmp_path, what):
    (tmp_path / "profiles.yaml").write_bytes(b"floor: floor.yaml\n" + PROFILES)
    (tmp_path / "floor.yaml").write_bytes(b"tools: [{deny: nothing}]\n")
    assert plan("reader").profile.name == "reader"
    (tmp_path / what).chmod(0o666)
    with pytest.raises(AffiantError, match="written by every user") as refused:
        plan("reader")
    assert refused.value.code == "policy.file"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_profile_of_another_user_is_not_enforced(plan, tmp_path):
    os.chown(tmp_path / "profiles.yaml", 12345, 12345)
    with pytest.raises(AffiantError, match="another user") as refused:
        plan("reader")
    assert refused.value.code == "policy.file"


def test_a_named_place_below_a_listed_path_takes_the_input(plan, tmp_path):
    found = plan("two_places", input=tmp_path / "in", input_at="/in/here")
    assert (found.place, found.sandbox.source_of("/in/here")) == ("/in/here", "files/0/here")


def test_an_output_below_a_writable_path_is_accepted(plan, tmp_path):
    assert plan("writer", output=tmp_path / "out").place == "/workspace"
    assert plan("two_places", input=tmp_path / "in", input_at="/out", output=tmp_path / "o").place == "/out"


def test_an_image_is_unpacked_into_the_sessions_folder_and_a_folder_is_used_where_it_is(plan, tmp_path):
    (tmp_path / "image.tar").touch()
    (tmp_path / "layout").mkdir()
    (tmp_path / "layout" / "oci-layout").touch()
    for image in ("image.tar", "layout"):
        found = plan("reader", rootfs=tmp_path / image)
        assert (found.rootfs, found.image) == (tmp_path / "session" / "rootfs", tmp_path / image)
    found = plan("reader", rootfs=tmp_path / "in")
    assert (found.rootfs, found.image) == (tmp_path / "in", None)


def test_hosts_are_canonical_names_with_canonical_addresses(plan):
    found = plan("reader", hosts={"DB.Internal.": ["10.0.0.1", "10.1.0.0/16"]})
    assert found.hosts == {"db.internal": ("10.0.0.1", "10.1.0.0/16")}


def signed(folder: Path, *, place: str = "profiles.yaml.sig.json") -> bytes:
    """A signature over the profile file, by a key that nobody here is asked to believe."""
    key = ec.derive_private_key(5, ec.SECP256R1())
    statement = signed_profiles(read_profiles(folder / "profiles.yaml")).to_bytes()
    signature = sign_envelope(statement, SigningKey(key, ProfileKey.of(key.public_key())))
    (folder / place).write_bytes(signature)
    return signature


def test_a_signature_beside_the_profile_goes_with_it(plan, tmp_path):
    assert plan("reader").signature is None
    signature = signed(tmp_path)
    assert plan("reader").signature == signature
    elsewhere = signed(tmp_path, place="other.json")
    assert plan("reader", policy_signature=tmp_path / "other.json").signature == elsewhere


@pytest.mark.parametrize("change", [b"# a comment\n", b"  more:\n    tools: [x]\n"])
def test_a_signature_about_what_the_file_was_before_is_refused(plan, tmp_path, change):
    signed(tmp_path)
    (tmp_path / "profiles.yaml").write_bytes(PROFILES + change)
    with pytest.raises(ProfileSignatureOther) as refused:
        plan("reader")
    assert "move profiles.yaml.sig.json away" in str(refused.value)


def test_what_is_no_signature_is_refused(plan, tmp_path):
    (tmp_path / "profiles.yaml.sig.json").write_bytes(b"{}")
    with pytest.raises(AffiantError) as refused:
        plan("reader")
    assert refused.value.code == "policy.signature"
    with pytest.raises(AffiantError) as refused:
        plan("reader", policy_signature=tmp_path / "none.json")
    assert refused.value.code == "policy.unsigned"


def test_no_listed_path_and_no_files_asked_for_is_fine(plan):
    with raises_code("session.input"):
        plan("homeless", output=Path("x"))
    assert plan("homeless").place is None


def test_the_published_profiles_are_planned_unchanged_under_a_floor_that_names_approvers(
    plan, tmp_path: Path
) -> None:
    seed = Path(__file__).parents[3] / "policy" / "profiles" / "seed-profiles.yaml"
    own = tmp_path / "seed.yaml"
    own.write_bytes(seed.read_bytes())
    floor = tmp_path / "org.yaml"
    floor.write_text("requires_human_approval: {approvers: [NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs]}\n")
    made = plan("deployment_agent", profile=own, floor=floor)
    assert made.profile.compiled.decide_tool("run_terraform").effect is Effect.ASK
    assert made.profile.policy.floor is not None
    alone = plan("deployment_agent", profile=own)
    assert alone.profile.compiled.decide_tool("run_terraform").reason == "approval_no_approver"
    floor.chmod(0o666)
    with raises_code("policy.file"):
        plan("deployment_agent", profile=own, floor=floor)


_DAY = 24 * 3600


@pytest.mark.parametrize(
    ("lease_s", "wall", "expected"),
    [
        (900, None, 900),
        (900, "720h", 900),
        (40 * _DAY, "60s", 40 * _DAY),
        (None, "720h", 30 * _DAY + 600),
        (None, "60s", 660),
        (None, None, _DAY // 2),
    ],
)
def test_a_session_may_last_as_its_starter_says_else_as_its_profile_does(
    plan, tmp_path: Path, lease_s: int | None, wall: str | None, expected: int
) -> None:
    limits = b"" if wall is None else f"    limits: {{wall: {wall}}}\n".encode()
    profile = tmp_path / "timed.yaml"
    profile.write_bytes(PROFILES.partition(b"  writer:")[0] + limits)
    found = plan("reader", profile=profile, lease_s=lease_s)
    assert found.lease_s == expected
    assert limits_and_mechanisms(found, memory=None)["lease"]["value"] == expected
