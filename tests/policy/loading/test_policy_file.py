"""Files: what somebody else could have written is looked at, and not enforced."""

import os
import tempfile
from pathlib import Path

import pytest

from affiant.errors import AffiantError
from affiant.policy.loading.policy_file import policy_owners, read_policy_file, read_profiles

OWN = policy_owners(os.geteuid(), {})
TEXT = "agent_configs: {dev: {tools: [a]}}\n"


def refused(path: Path) -> AffiantError:
    with pytest.raises(AffiantError) as caught:
        read_policy_file(path, owners=OWN)
    return caught.value


def test_a_file_is_read_with_its_name_in_places(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    assert str(read_profiles(file).profile("dev").places["tools/0"]) == "p.yaml:1:31"


def test_a_missing_file_a_folder_and_a_pipe_are_refused(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "none", tmp_path, tmp_path / "pipe", tmp_path / "none" / "p.yaml"):
        error = refused(path)
        assert error.code == "policy.file"
        assert str(tmp_path.parent) not in str(error)


def test_a_refusal_names_the_file_even_where_its_path_has_no_name() -> None:
    assert "cannot read '.': " in str(refused(Path()))


def test_a_file_that_everybody_can_write_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    file.chmod(0o666)
    assert refused(file).code == "policy.file"
    assert "dev" in read_profiles(file).profiles, "a reviewer may look at it"


@pytest.mark.root
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_text(TEXT)
    os.chown(file, 12345, 12345)
    assert "another user" in str(refused(file))
    assert "dev" in read_profiles(file).profiles, "a reviewer may look at it"
    assert "dev" in read_policy_file(file, owners=policy_owners(0, {"SUDO_UID": "12345"})).profiles.profiles


def test_root_enforces_files_of_whoever_called_sudo_and_nobody_else_does() -> None:
    assert policy_owners(0, {"SUDO_UID": "1000"}) == {0, 1000}
    assert (
        policy_owners(0, {})
        == policy_owners(0, {"SUDO_UID": "-1"})
        == policy_owners(0, {"SUDO_UID": "\u0661"})
        == {0}
    )
    assert policy_owners(1001, {"SUDO_UID": "1000"}) == {0, 1001}


def test_an_unreadable_file_is_refused() -> None:
    own = os.geteuid()
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "p.yaml"
        file.write_text(TEXT)
        file.chmod(0)
        Path(folder).chmod(0o755)
        if own == 0:  # root reads every file
            os.seteuid(65534)
        try:
            error = refused(file)
        finally:
            os.seteuid(own)
    assert error.code == "policy.file"
    assert "cannot read 'p.yaml': Permission denied" in str(error)


def test_a_file_beyond_the_limit_is_refused_and_not_cut(tmp_path: Path) -> None:
    file = tmp_path / "p.yaml"
    file.write_bytes(TEXT.encode() + b"#" * (1 << 20))
    assert refused(file).code == "policy.too_large"


def test_the_floor_is_read_from_beside_the_file_under_the_same_rules(tmp_path: Path) -> None:
    file, floor = tmp_path / "p.yaml", tmp_path / "floor.yaml"
    file.write_text("floor: floor.yaml\n" + TEXT)
    error = refused(file)
    assert (error.code, error.where) == ("policy.file", "p.yaml:1:8")
    assert error.excerpt is not None
    assert error.excerpt.text == "floor: floor.yaml"
    floor.write_text("tools: [{deny: a}]\n")
    assert read_profiles(file).profile("dev").compiled.decide_tool("a").reason == "tool_denied"
    floor.chmod(0o666)
    assert refused(file).code == "policy.file"
