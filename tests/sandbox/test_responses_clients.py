"""Clients that speak the Responses API by default, unmodified and with nothing configured, inside a session."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import prepared_runtime
from tests.gateway.responses_upstream import responses_upstream
from tests.sandbox.conftest import Machine, made_machine

CLIENTS = Path(os.environ.get("AFFIANT_PYTHON_CLIENTS") or Path.home() / ".cache/affiant-tests/clients")
"""Packages that the tests' own environment does not have: scripts/install_test_tools.sh."""

FIRST_SCRIPT = """
from openai import OpenAI
print(OpenAI().responses.create(model="any", input="hello from inside").output_text)
"""

OPENAI = """
import json, openai
client, seen = openai.OpenAI(), {}
made = client.responses.create(model="m", input="one")
seen["whole"] = made.output_text
with client.responses.stream(model="m", input="two words") as stream:
    seen["streamed"] = "".join(event.delta for event in stream if event.type == "response.output_text.delta")
tool = {"type": "function", "name": "read_file", "parameters": {"type": "object", "properties": {}}, "strict": False}
called = client.responses.create(model="m", input="call_tool:read_file {}", tools=[tool])
output = {"type": "function_call_output", "call_id": called.output[0].call_id, "output": "42"}
seen["told"] = client.responses.create(model="m", previous_response_id=called.id, input=[output]).output_text
seen["kept"] = client.responses.retrieve(made.id).output_text
seen["streamed again"] = [event.type for event in client.responses.retrieve(made.id, stream=True)][-1]
seen["items"] = [item.content[0].text for item in client.responses.input_items.list(made.id)]
client.responses.delete(made.id)
slow = client.responses.create(model="m", input="slowly", background=True)
seen["background"] = [client.responses.retrieve(slow.id).status for _ in range(2)]
seen["cancelled"] = client.responses.cancel(client.responses.create(model="m", input="no", background=True).id).status
seen["compacted"] = client.responses.compact(model="m", input="long").output[0].type
try:
    client.responses.retrieve("resp_of_another")
except openai.NotFoundError as error:
    seen["another's"] = error.code
print(json.dumps(seen))
"""

AGENTS = """
import asyncio, json
from agents import Agent, Runner, function_tool

@function_tool
def read_file(path: str) -> str:
    return "content of " + path

agent = Agent(name="reader", instructions="Read what is asked for.", tools=[read_file], model="m")

async def run():
    whole = await Runner.run(agent, 'call_tool:read_file {"path": "notes.txt"}')
    result = Runner.run_streamed(agent, 'call_tool:read_file {"path": "other.txt"}')
    async for _ in result.stream_events():
        pass
    return [whole.final_output, result.final_output]

print(json.dumps(asyncio.run(run())))
"""

PYDANTIC_AI = """
import asyncio, json
from pydantic_ai import Agent

agent = Agent("openai:m")

@agent.tool_plain
def read_file(path: str) -> str:
    return "content of " + path

async def run():
    whole = await agent.run('call_tool:read_file {"path": "notes.txt"}')
    async with agent.run_stream('call_tool:read_file {"path": "other.txt"}') as result:
        return [whole.output, await result.get_output()]

print(json.dumps(asyncio.run(run())))
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[str]:
    with responses_upstream() as (started, _):
        yield started.url


@pytest.fixture(scope="module")
def keeping(isolation: str, release: None) -> Iterator[Machine]:
    """A state folder of its own: the gateway of each run has another upstream than the echo."""
    with made_machine(isolation) as made:
        yield made


def runtime_of(folder: Path, *names: str, site: Path | None = None) -> Path:
    """A runtime with the packages of these names."""
    if not prepared_runtime.fits():
        pytest.skip("the packages do not fit the sandbox's python3")
    found = folder / f"{names[0]}-runtime"
    return found if found.exists() else prepared_runtime.make_runtime(found, *names, site=site)


def test_a_first_script_is_answered_by_the_echo(warm, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    options = ("--runtime", str(runtime_of(warm.folder, "openai")), "--bundle", str(bundle))
    done = warm.run("python3", "-c", FIRST_SCRIPT, options=options)
    assert done.returncode == 0, done.stderr.decode()
    assert done.stdout == b"echo: hello from inside\n"
    assert "1 inference" in warm.verdict(bundle)


def test_the_openai_client_makes_its_usual_calls(keeping: Machine, upstream: str, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    options = ("--runtime", str(runtime_of(keeping.folder, "openai")), "--bundle", str(bundle))
    done = keeping.run("python3", "-c", OPENAI, options=(*options, "--upstream", upstream), timeout=100)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {
        "whole": "echo: one",
        "streamed": "echo: two words",
        "told": "the tool said: 42",
        "kept": "echo: one",
        "streamed again": "response.completed",
        "items": ["one"],
        "background": ["queued", "completed"],
        "cancelled": "cancelled",
        "compacted": "compaction",
        "another's": "response.not_found",
    }
    told = keeping.verdict(bundle, code=20)
    assert "14 inference" in told, told
    refused = {line.split()[1].rstrip(":") for line in told.splitlines() if line.startswith("REFUSED")}
    assert refused == {"conf.not_accepted"}, "the user's own upstream, and nothing else"


@pytest.mark.slow
@pytest.mark.parametrize("program", [AGENTS, PYDANTIC_AI], ids=["openai-agents", "pydantic-ai"])
def test_agents_of_other_frameworks_run_with_their_defaults(
    keeping: Machine, upstream: str, program: str
) -> None:
    if program is AGENTS:
        runtime = runtime_of(keeping.folder, "openai-agents")
    elif (CLIENTS / "pydantic_ai").exists():
        runtime = runtime_of(keeping.folder, "pydantic-ai-slim", "openai", "tiktoken", site=CLIENTS)
    else:
        pytest.skip("no pydantic-ai here: scripts/install_test_tools.sh names how to install it")
    options = ("--runtime", str(runtime), "--upstream", upstream)
    done = keeping.run("python3", "-c", program, options=options, timeout=110)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == [
        "the tool said: content of notes.txt",
        "the tool said: content of other.txt",
    ]
