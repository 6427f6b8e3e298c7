"""Programs for Node.js reach the gateway with nothing configured: Node 20 reads no proxy variable."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path

import pytest

NODE = Path("/usr/bin/node")
PACKAGES = Path(os.environ.get("AFFIANT_NODE_PACKAGES") or Path.home() / ".cache/affiant-tests/node_modules")
PINNED = {
    "openai": "6.49.0",
    "ai": "6.0.326",
    "@ai-sdk/openai": "3.0.141",
    "@anthropic-ai/sdk": "1.12.0",
}

pytestmark = pytest.mark.skipif(not NODE.exists(), reason="no Node.js in /usr, which the sandbox shows")

FETCH = """
const body = {model: "m", messages: [{role: "user", content: "ping from fetch"}]};
const response = await fetch(process.env.OPENAI_BASE_URL + "/chat/completions",
    {method: "POST", headers: {"Content-Type": "application/json"}, body: JSON.stringify(body)});
const answer = await response.json();
const {content} = answer.choices[0].message;
console.log(JSON.stringify([response.status, response.headers.has("affiant-receipt-id"), content]));
"""

ELSEWHERE = """
const tried = async (host, port) => new Promise((resolve) => {
    const socket = require("net").connect({host, port}, () => { socket.destroy(); resolve("connected"); });
    socket.on("error", (error) => resolve(error.code));
});
(async () => {
    const outcomes = [];
    for (const port of [22, 443, 3128]) outcomes.push(await tried("gateway.affiant.internal", port));
    for (const name of ["gateway", "sessions"]) {
        const response = await fetch(`http://${name}.affiant.internal/`);
        outcomes.push([response.status, (await response.json()).error.code]);
    }
    console.log(JSON.stringify(outcomes));
})();
"""

OPENAI = """
import OpenAI from "openai";
const client = new OpenAI();
const messages = [{role: "user", content: "ping from openai"}];
const whole = await client.chat.completions.create({model: "m", messages});
let streamed = "";
for await (const part of await client.chat.completions.create({model: "m", messages, stream: true}))
    streamed += part.choices[0]?.delta?.content ?? "";
console.log(JSON.stringify([whole.choices[0].message.content, streamed]));
"""

ANTHROPIC = """
import Anthropic from "@anthropic-ai/sdk";
const client = new Anthropic();
const asked = (content) => ({model: "m", max_tokens: 64, messages: [{role: "user", content}]});
const {input_tokens} = await client.messages.countTokens({model: "m", messages: asked("x").messages});
if (!(input_tokens > 0)) throw new Error("no count");
const tools = [{name: "read_file", input_schema: {type: "object", properties: {path: {type: "string"}}}}];
const call = await client.messages.create({...asked('call_tool:read_file {"path": "a"}'), tools});
const {type, name, input, id} = call.content[0];
if (type !== "tool_use" || name !== "read_file" || input.path !== "a") throw new Error(JSON.stringify(call));
const result = {type: "tool_result", tool_use_id: id, content: "ping from anthropic"};
const turns = [...asked("x").messages, {role: "assistant", content: call.content}, {role: "user", content: [result]}];
const whole = await client.messages.create({...asked("x"), tools, messages: turns});
const streamed = await client.messages.stream({...asked("x"), tools, messages: turns}).finalText();
const refused = await client.messages.create(asked("call_tool:rm {}")).catch((error) => error);
if (!(refused instanceof Anthropic.PermissionDeniedError)) throw new Error(String(refused));
console.log(JSON.stringify([whole.content[0].text, streamed]));
"""

AI_SDK = """
import { generateText, streamText } from "ai";
import { openai } from "@ai-sdk/openai";
const model = openai.chat("m");
const whole = await generateText({model, prompt: "ping from ai"});
let streamed = "";
for await (const part of streamText({model, prompt: "ping from ai"}).textStream) streamed += part;
console.log(JSON.stringify([whole.text, streamed]));
"""

RESPONSES = """
import OpenAI from "openai";
const client = new OpenAI();
const input = "ping from responses";
const whole = await client.responses.create({model: "m", input});
let streamed = "";
for await (const event of await client.responses.create({model: "m", input, stream: true}))
    if (event.type === "response.output_text.delta") streamed += event.delta;
console.log(JSON.stringify([whole.output_text, streamed]));
"""

AI_SDK_RESPONSES = """
import { generateText, stepCountIs, streamText, tool, jsonSchema } from "ai";
import { openai } from "@ai-sdk/openai";
const model = openai("m");
const inputSchema = jsonSchema({type: "object", properties: {}});
const read_file = tool({inputSchema, execute: async () => "ping from a file"});
const asked = {model, prompt: "call_tool:read_file {}", tools: {read_file}, stopWhen: stepCountIs(3)};
const whole = await generateText(asked);
let streamed = "";
for await (const part of streamText(asked).textStream) streamed += part;
console.log(JSON.stringify([whole.text, streamed]));
"""


def test_fetch_reaches_the_gateway_unconfigured(warm, tmp_path: Path) -> None:
    bundle = tmp_path / "bundle"
    options = ("--bundle", str(bundle))
    done = warm.run("node", "--input-type=module", "-e", FETCH, options=options)
    assert done.returncode == 0, done.stderr.decode()
    status, receipted, content = json.loads(done.stdout)
    assert (status, receipted) == (200, True)
    assert "ping from fetch" in content
    assert "1 inference" in warm.verdict(bundle)


@pytest.mark.slow
def test_the_supervisors_own_names_lead_nowhere_else(warm) -> None:
    done = warm.run("node", "-e", ELSEWHERE)
    assert done.returncode == 0, done.stderr.decode()
    refused, served = ["ECONNREFUSED"] * 3, [[404, "gateway_path"], [403, "start_not_listed"]]
    assert json.loads(done.stdout) == [*refused, *served], done.stdout


def installed(name: str) -> bool:
    path = PACKAGES / name / "package.json"
    return path.exists() and json.loads(path.read_text())["version"] == PINNED[name]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not all(map(installed, PINNED)):
        pytest.skip("these versions of the packages are not here: scripts/install_test_tools.sh")
    folder = tmp_path_factory.mktemp("node")
    folder.chmod(0o755)  # the agent reads it as another user
    (folder / "lib").mkdir()
    shutil.copytree(PACKAGES, folder / "lib" / "node_modules", symlinks=True)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize(
    "program",
    [OPENAI, ANTHROPIC, AI_SDK, RESPONSES, AI_SDK_RESPONSES],
    ids=["openai", "anthropic", "Vercel AI SDK", "openai, responses", "Vercel AI SDK, by default"],
)
def test_packages_from_npm_work_unconfigured(warm, runtime: Path, program: str) -> None:
    done = warm.run(
        "node", "--input-type=module", "-e", program, options=("--runtime", str(runtime)), timeout=120
    )
    assert done.returncode == 0, done.stderr.decode()
    whole, streamed = json.loads(done.stdout)
    assert "ping from" in whole
    assert streamed == whole
