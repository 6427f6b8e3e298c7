"""The SDK's runner over our sandboxes: its own tools, a pause and its resumption, a shared session, with receipts."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

agents = pytest.importorskip("agents", reason="needs affiant[openai-agents]")
pytest.importorskip("agents.sandbox", reason="needs affiant[openai-agents]")

from agents import RunConfig, Runner, function_tool  # noqa: E402 - the SDK may be missing
from agents.items import ToolCallOutputItem  # noqa: E402
from agents.run_state import RunState  # noqa: E402
from agents.sandbox import Manifest, SandboxAgent, SandboxPathGrant, SandboxRunConfig  # noqa: E402
from agents.sandbox.capabilities import Filesystem, Shell, Skills  # noqa: E402
from agents.sandbox.entries import Dir, File, LocalDir  # noqa: E402
from agents.sandbox.snapshot import LocalSnapshotSpec  # noqa: E402
from agents.testing import ScriptedModel, assistant_message, function_call  # noqa: E402
from openai.types.responses import ResponseCustomToolCall  # noqa: E402
from tests.sandbox.openai_agents.test_sandbox_client import client_of, records  # noqa: E402

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
PATCH = """*** Begin Patch
*** Update File: notes.txt
@@
-draft
+final
*** Add File: made/new.txt
+made
*** End Patch
"""


@pytest.fixture(autouse=True)
def snapshots(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A run that names no snapshot keeps one where the SDK does by default."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))


def command(line: str, number: int, **more: Any) -> list[Any]:
    return [function_call("exec_command", {"cmd": line, **more}, call_id=f"call_{number}")]


def patched(number: int) -> list[Any]:
    return [
        ResponseCustomToolCall(
            type="custom_tool_call", name="apply_patch", input=PATCH, call_id=f"call_{number}"
        )
    ]


def outputs(result: Any) -> list[str]:
    return [str(item.output) for item in result.new_items if isinstance(item, ToolCallOutputItem)]


def config(client: Any, **more: Any) -> RunConfig:
    return RunConfig(sandbox=SandboxRunConfig(client=client, **more), tracing_disabled=True)


@function_tool(name_override="publish", needs_approval=True)
def publish() -> str:
    return "published"


def editor(model: ScriptedModel) -> SandboxAgent:
    return SandboxAgent(
        name="editor",
        model=model,
        instructions="Edit the notes.",
        default_manifest=Manifest(entries={"notes.txt": File(content=b"draft\n")}),
        tools=[publish],
        capabilities=[Filesystem(), Shell()],
    )


def test_the_sdks_shell_and_patches_work_confined_and_each_has_its_record(warm: Any, tmp_path: Path) -> None:
    (tmp_path / "host").write_text("of the host")
    model = ScriptedModel(
        [
            command("cat notes.txt; id -u", 1),
            command(
                f"exec 2>&1; cat {tmp_path}/host || echo hidden; touch /etc/made || echo denied; echo said >&2",
                2,
            ),
            patched(3),
            command("read line; echo got:$line", 4, tty=True, yield_time_ms=250),
            command("cat notes.txt made/new.txt", 5),
            [assistant_message("done")],
        ]
    )
    client = client_of(warm)
    result = asyncio.run(Runner.run(editor(model), "Finish the notes.", run_config=config(client)))
    model.assert_complete()
    assert result.final_output == "done"
    first, second, third, fourth, fifth = outputs(result)
    assert "draft\n1000" in first
    assert "hidden" in second and "denied" in second and "of the host" not in second
    assert "No such file or directory" in second and "cannot touch" in second and "said" in second
    assert "Updated notes.txt" in third
    assert "running with session ID" in fourth
    assert "final\nmade" in fifth
    (bundle,) = client.bundles
    warm.verdict(bundle)
    found = records(bundle)
    made = [each for each in found if each["kind"] == "exec" and each["ph"] == "intent"]
    assert len(made) == 5  # four calls of the model's, and the manifest's chmod
    assert sum(each["kind"] == "file" for each in found) >= 4


@pytest.mark.slow
def test_a_run_that_is_paused_and_resumed_has_its_files_again(warm: Any, tmp_path: Path) -> None:
    """As the SDK's own test of its runner does it: interrupted by an approval, as JSON, with another model."""
    snapshot = LocalSnapshotSpec(base_path=tmp_path)
    client = client_of(warm)
    before = ScriptedModel(
        [patched(1), command("chmod 700 made/new.txt", 2), [function_call("publish", {}, call_id="call_3")]]
    )
    paused = asyncio.run(Runner.run(editor(before), "Go.", run_config=config(client, snapshot=snapshot)))
    assert len(paused.interruptions) == 1
    told = json.dumps(paused.to_state().to_json())
    assert len(client.bundles) == 1

    after = ScriptedModel([command("cat notes.txt; ls -l made", 4), [assistant_message("done")]])
    agent, other = editor(after), client_of(warm)

    async def resumed() -> Any:
        state = await RunState.from_json(agent, json.loads(told))
        state.approve(state.get_interruptions()[0])
        return await Runner.run(agent, state, run_config=config(other, snapshot=snapshot))

    result = asyncio.run(resumed())
    assert result.final_output == "done"
    approved, shown = outputs(result)[-2:]
    assert approved == "published"
    assert "final" in shown and "-rwx" in shown and "new.txt" in shown
    for bundle in (*client.bundles, *other.bundles):
        warm.verdict(bundle)


@pytest.mark.slow
def test_agents_share_a_session_that_they_are_given_and_its_owner_closes_it(warm: Any) -> None:
    client = client_of(warm)

    async def go() -> list[Any]:
        session = await client.create()
        found = []
        async with session:
            for line in ("echo one > shared.txt", "cat shared.txt"):
                model = ScriptedModel([command(line, 1), [assistant_message("done")]])
                agent = SandboxAgent(name=line, model=model, capabilities=[Shell()])
                run = RunConfig(sandbox=SandboxRunConfig(session=session), tracing_disabled=True)
                found += outputs(await Runner.run(agent, "Go.", run_config=run))
            assert await session.running()
        await client.delete(session)
        return found

    assert asyncio.run(go())[1].endswith("one\n")
    assert len(client.bundles) == 1


@pytest.mark.slow
def test_skills_images_and_a_working_directory_of_the_run_work(warm: Any, tmp_path: Path) -> None:
    (tmp_path / "skills/greet").mkdir(parents=True)
    (tmp_path / "skills/greet/SKILL.md").write_text(
        "---\nname: greet\ndescription: greets\n---\nSay hello.\n"
    )
    model = ScriptedModel(
        [
            command(f"pwd; cat ../.agents/greet/SKILL.md; echo {PIXEL} | base64 -d > pixel.png", 1),
            [function_call("view_image", {"path": "pixel.png"}, call_id="call_2")],
            [assistant_message("done")],
        ]
    )
    agent = SandboxAgent(
        name="artist",
        model=model,
        default_manifest=Manifest(
            entries={"sub": Dir(children={"file": File(content=b"1")})},
            extra_path_grants=(SandboxPathGrant(path=str(tmp_path)),),
        ),
        capabilities=[Filesystem(), Shell(), Skills(from_=LocalDir(src=tmp_path / "skills"))],
    )
    run = config(client_of(warm), cwd="sub")
    first, second = outputs(asyncio.run(Runner.run(agent, "Draw.", run_config=run)))
    assert "/workspace/sub\n" in first and "Say hello." in first
    assert PIXEL in second


@pytest.mark.slow
def test_streamed_runs_work_as_others_do(warm: Any) -> None:
    client = client_of(warm)
    model = ScriptedModel([command("echo streamed", 1), [assistant_message("done")]])

    async def go() -> Any:
        result = Runner.run_streamed(editor(model), "Go.", run_config=config(client))
        async for _ in result.stream_events():
            pass
        return result

    assert outputs(asyncio.run(go()))[0].endswith("streamed\n")
    assert len(client.bundles) == 1


@pytest.mark.slow
def test_a_run_that_fails_still_closes_its_session_with_its_records(warm: Any) -> None:
    client = client_of(warm)
    model = ScriptedModel([command("echo before", 1), ValueError("the model is gone")])
    with pytest.raises(ValueError, match="the model is gone"):
        asyncio.run(Runner.run(editor(model), "Go.", run_config=config(client)))
    (bundle,) = client.bundles
    warm.verdict(bundle)
