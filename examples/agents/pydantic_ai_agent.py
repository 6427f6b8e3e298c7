"""pydantic-ai."""

from pathlib import Path

from pydantic_ai import Agent
from pydantic_ai.models.openai import OpenAIChatModel

agent = Agent(OpenAIChatModel("scripted"))


@agent.tool_plain
def read_file(path: str) -> str:
    """Read a file of the workspace."""
    return Path(path).read_text()


print(agent.run_sync("Read the notes.").output)
