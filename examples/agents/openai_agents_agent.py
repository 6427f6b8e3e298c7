"""OpenAI Agents SDK. Its tracing would call a host that the profile does not list; a session switches it off."""

from pathlib import Path

from agents import Agent, Runner, function_tool


@function_tool
def read_file(path: str) -> str:
    """Read a file of the workspace."""
    return Path(path).read_text()


agent = Agent(name="reader", instructions="Read what is asked for.", tools=[read_file], model="scripted")
print(Runner.run_sync(agent, "Read the notes.").final_output)
