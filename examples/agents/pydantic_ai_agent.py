"""pydantic-ai."""

from pathlib import Path

from pydantic_ai import Agent

agent = Agent("openai:scripted")


@agent.tool_plain
def read_file(path: str) -> str:
    """Read a file of the workspace."""
    return Path(path).read_text()


print(agent.run_sync("Read the notes.").output)
