"""A model server with a script: it asks for the first tool that it is offered, then repeats what the tool returned.

python3 scripted_model.py 8931
"""

import json
import sys
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ARGUMENTS = {"shell": {"command": "wc -l notes.txt"}, "exec_command": {"cmd": "wc -l notes.txt"}}


def complete(asked: dict) -> dict:
    """One chat completion."""
    result = next((each["content"] for each in reversed(asked["messages"]) if each["role"] == "tool"), None)
    if result is None and asked.get("tools"):
        name = asked["tools"][0]["function"]["name"]
        function = {"name": name, "arguments": json.dumps(ARGUMENTS.get(name, {"path": "notes.txt"}))}
        call = {"id": "call_1", "type": "function", "function": function}
        message, reason = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    else:
        message, reason = {"role": "assistant", "content": f"The tool said: {result}"}, "stop"
    return {
        "id": "completion-1",
        "object": "chat.completion",
        "created": 0,
        "model": asked["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": reason}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2},
    }


def respond(asked: dict) -> dict:
    """The same as one response of the Responses API."""
    items = asked["input"] if isinstance(asked["input"], list) else []
    result = next(
        (each["output"] for each in reversed(items) if each.get("type") == "function_call_output"), None
    )
    if result is None and asked.get("tools"):
        name = asked["tools"][0]["name"]
        called = {
            "call_id": "call_1",
            "name": name,
            "arguments": json.dumps(ARGUMENTS.get(name, {"path": "notes.txt"})),
        }
        item = {"type": "function_call", "id": "fc_1", "status": "completed", **called}
    else:
        part = {"type": "output_text", "text": f"The tool said: {result}", "annotations": []}
        item = {
            "type": "message",
            "id": "msg_1",
            "role": "assistant",
            "status": "completed",
            "content": [part],
        }
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 0,
        "status": "completed",
        "model": asked["model"],
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": asked.get("tools", []),
        "usage": {
            "input_tokens": 1,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 1,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": 2,
        },
    }


class Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        answer = respond if self.path.endswith("/responses") else complete
        body = json.dumps(answer(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Model).serve_forever()
