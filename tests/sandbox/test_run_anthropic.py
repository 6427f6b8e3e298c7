"""Programs that speak Anthropic's API reach the gateway with nothing configured, and each call has its receipt."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests import prepared_runtime
from tests.sandbox.conftest import PROFILES

CLIENTS = Path(
    os.environ.get("AFFIANT_ANTHROPIC_CLIENTS") or Path.home() / ".cache/affiant-tests/anthropic-clients"
)
CLAUDE_CODE = (
    Path(os.environ.get("AFFIANT_CLAUDE_CODE") or Path.home() / ".cache/affiant-tests/claude-code")
    / "node_modules/@anthropic-ai/claude-code"
)

CLIENT = """
import asyncio, json
import anthropic
from anthropic import beta_tool

def asked(text):
    return {"model": "affiant-dev-echo", "max_tokens": 64, "messages": [{"role": "user", "content": text}]}

@beta_tool
def read_file(path: str) -> str:
    "Read a file."
    return "content of " + path

async def concurrently():
    async with anthropic.AsyncAnthropic() as client:
        return (await client.messages.create(**asked("ping"))).content[0].text

client = anthropic.Anthropic()
told = [client.messages.create(**asked("ping")).content[0].text]
with client.messages.stream(**asked("ping")) as stream:
    told.append(stream.get_final_text())
told.append(asyncio.run(concurrently()))
loop = client.beta.messages.tool_runner(**asked('call_tool:read_file {"path": "a"}'), tools=[read_file])
told.append([turn.content[-1].type for turn in loop])
counted = client.messages.count_tokens(model="affiant-dev-echo", messages=asked("ping")["messages"])
told.append(counted.input_tokens > 0)
try:
    client.messages.create(**asked("call_tool:rm {}"))
except anthropic.PermissionDeniedError as error:
    told.append(error.type)
try:
    client.messages.batches.list()
except anthropic.NotFoundError as error:
    told.append(error.type)
print(json.dumps(told))
"""


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not prepared_runtime.fits():
        pytest.skip("the python3 inside is another version than these packages are made for")
    folder = tmp_path_factory.mktemp("anthropic")
    folder.chmod(0o755)  # the agent reads it as another user
    return prepared_runtime.make_runtime(folder / "runtime", "anthropic")


def test_the_unmodified_client_makes_its_usual_calls(warm, runtime: Path, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    options = ("--runtime", str(runtime), "--bundle", str(bundle))
    done = warm.run("python3", "-c", CLIENT, options=options, timeout=120)
    assert done.returncode == 0, done.stderr.decode()
    whole, streamed, concurrent, turns, counted, denied, unserved = json.loads(done.stdout)
    assert whole == streamed == concurrent == "echo: ping"
    assert (turns, counted) == (["tool_use", "text"], True)
    assert (denied, unserved) == ("permission_error", "not_found_error")
    # refused: the thread that the loop of calls asks for at first, the call of `rm`, the list of batches
    assert "7 inference, 3 refusal" in warm.verdict(bundle)


LITELLM = """
import json, os
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # or it asks another host for prices, three times
import litellm
def ask(text, **more):
    messages = [{"role": "user", "content": text}]
    return litellm.completion(model="anthropic/affiant-dev-echo", messages=messages, max_tokens=64, **more)
schema = {"type": "object", "properties": {"path": {"type": "string"}}}
tools = [{"type": "function", "function": {"name": "read_file", "parameters": schema}}]
called = ask('call_tool:read_file {"path": "a"}', tools=tools).choices[0].message.tool_calls[0].function
streamed = "".join(part.choices[0].delta.content or "" for part in ask("ping", stream=True))
print(json.dumps([ask("ping").choices[0].message.content, streamed, [called.name, json.loads(called.arguments)]]))
"""
PYDANTIC_AI = """
import asyncio, json
from pydantic_ai import Agent
from pydantic_ai.models.anthropic import AnthropicModel
agent, seen = Agent(AnthropicModel("affiant-dev-echo")), []
@agent.tool_plain
def read_file(path: str) -> str:
    seen.append(path)
    return "content of " + path
async def run():
    async with agent.run_stream("ping") as stream:
        streamed = "".join([part async for part in stream.stream_text(delta=True)])
    whole = (await agent.run("ping")).output
    told = (await agent.run('call_tool:read_file {"path": "a"}')).output
    assert told == "the tool said: content of a", told
    return [whole, streamed, ["read_file", {"path": seen[0]}]]
print(json.dumps(asyncio.run(run())))
"""
LANGGRAPH = """
import json
from langchain_anthropic import ChatAnthropic
from langchain_core.tools import tool
from langgraph.prebuilt import create_react_agent
seen = []
@tool
def read_file(path: str) -> str:
    "Read a file."
    seen.append(path)
    return "content of " + path
model = ChatAnthropic(model="affiant-dev-echo", max_tokens=64)
streamed = "".join(part.text if isinstance(part.text, str) else part.text() for part in model.stream("ping"))
turns = create_react_agent(model, [read_file]).invoke({"messages": [("user", 'call_tool:read_file {"path": "a"}')]})
assert turns["messages"][-1].content == "the tool said: content of a", turns
print(json.dumps([model.invoke("ping").content, streamed, ["read_file", {"path": seen[0]}]]))
"""


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "program", [LITELLM, PYDANTIC_AI, LANGGRAPH], ids=["litellm", "pydantic-ai", "langgraph"]
)
def test_frameworks_over_that_client_work_unconfigured(warm, program: str) -> None:
    if not prepared_runtime.fits() or not (CLIENTS / "pyvenv.cfg").exists():
        pytest.skip("these packages are not here: scripts/install_test_tools.sh")
    done = warm.run("python3", "-c", program, options=("--runtime", str(CLIENTS)), timeout=350)
    assert done.returncode == 0, done.stderr.decode()
    echo = "echo: ping"
    assert json.loads(done.stdout.splitlines()[-1]) == [echo, echo, ["read_file", {"path": "a"}]]


CODER = (
    PROFILES
    + """  coder:
    tools: [Read]
    filesystem_access: "read-write:/workspace"
    network_egress: denied
    secrets_access: []
"""
)
TASK = 'call_tool:Read {"file_path":"/workspace/file.txt"}'


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_claude_code_reads_a_file_and_its_telemetry_goes_nowhere(warm, tmp_path: Path) -> None:
    if not (CLAUDE_CODE / "bin/claude.exe").exists():
        pytest.skip("Claude Code is not here: scripts/install_test_tools.sh")
    (warm.folder / "profiles.yaml").write_text(CODER)
    bundle = tmp_path / "bundle"
    command = ("claude.exe", "-p", TASK, "--output-format", "json", "--allowedTools", "Read")
    options = ("--runtime", str(CLAUDE_CODE), "--bundle", str(bundle))
    done = warm.run(*command, agent="coder", options=options, timeout=350)
    assert done.returncode == 0, done.stdout.decode() + done.stderr.decode()
    ended = json.loads(done.stdout)
    assert (ended["subtype"], ended["is_error"], ended["permission_denials"]) == ("success", False, [])
    found = " ".join(warm.verdict(bundle).split())
    assert "tool 'Read' (1). Refused: 'host_not_listed api.anthropic.com'" in found
