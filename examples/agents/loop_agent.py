"""The loop of a coding agent, as Claude Code has it: the model asks for shell commands until it has an answer."""

import json
import subprocess

from openai import OpenAI

parameters = {"type": "object", "properties": {"command": {"type": "string"}}, "required": ["command"]}
tools = [{"type": "function", "function": {"name": "shell", "parameters": parameters}}]
messages = [{"role": "user", "content": "How many lines have the notes?"}]
client = OpenAI()
while True:
    completion = client.chat.completions.create(model="scripted", messages=messages, tools=tools)
    message = completion.choices[0].message
    if not message.tool_calls:
        break
    messages.append(message)
    for call in message.tool_calls:
        command = json.loads(call.function.arguments)["command"]
        # A shell is this agent's tool: the model writes commands for it. The sandbox bounds what they can do.
        done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
        messages.append({"role": "tool", "tool_call_id": call.id, "content": done.stdout + done.stderr})
print(message.content)
