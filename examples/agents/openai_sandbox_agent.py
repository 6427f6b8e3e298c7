"""OpenAI Agents SDK with its loop out here, and the agent's commands and files in a session with receipts."""

import asyncio
import sys

from agents import RunConfig, Runner, set_default_openai_api, set_tracing_disabled
from agents.sandbox import Manifest, SandboxAgent, SandboxRunConfig
from agents.sandbox.capabilities import Shell
from agents.sandbox.entries import File

from affiant.sandbox.openai_agents import AffiantSandboxClient

set_default_openai_api("chat_completions")
set_tracing_disabled(True)


async def main(profile: str, **more: object) -> None:
    client = AffiantSandboxClient(profile=profile, agent="dev", **more)
    agent = SandboxAgent(
        name="counter",
        model="scripted",
        instructions="Use the shell.",
        default_manifest=Manifest(entries={"notes.txt": File(content=b"Ship the release\non Friday.\n")}),
        capabilities=[Shell()],
    )
    run = RunConfig(sandbox=SandboxRunConfig(client=client))
    result = await Runner.run(agent, "How many lines have the notes?", run_config=run)
    print(result.final_output)
    print("Receipts:", *client.bundles)


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
