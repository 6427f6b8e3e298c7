"""A real engine, ``transformers serve`` with a random model, answers a session's official client.

It is looked for in ``AFFIANT_TRANSFORMERS`` and ``~/.cache/affiant-tests/engine`` (scripts/install_test_tools.sh).
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests import prepared_runtime

COMMAND = Path(
    os.environ.get("AFFIANT_TRANSFORMERS") or Path.home() / ".cache/affiant-tests/engine/bin/transformers"
)
MAKE_MODEL = """
import sys, torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
special = ["<|end|>", "<|user|>", "<|assistant|>", "<|system|>"]
numbers = {text: at for at, text in enumerate(special + sorted(pre_tokenizers.ByteLevel.alphabet()))}
tokens = Tokenizer(models.BPE(vocab=numbers, merges=[]))
tokens.pre_tokenizer, tokens.decoder = pre_tokenizers.ByteLevel(add_prefix_space=False), decoders.ByteLevel()
tokenizer = PreTrainedTokenizerFast(
    tokenizer_object=tokens, eos_token=special[0], pad_token=special[0], additional_special_tokens=special[1:]
)
tokenizer.chat_template = (
    "{% for each in messages %}<|{{ each.role }}|>{{ each.content }}<|end|>{% endfor %}<|assistant|>"
)
torch.manual_seed(0)
shape = {"hidden_size": 32, "intermediate_size": 64, "num_hidden_layers": 1, "num_attention_heads": 2}
numbered = {"eos_token_id": 0, "bos_token_id": 0, "pad_token_id": 0}
config = LlamaConfig(vocab_size=len(numbers), num_key_value_heads=2, max_position_embeddings=2048, **shape, **numbered)
LlamaForCausalLM(config).save_pretrained(sys.argv[1])
tokenizer.save_pretrained(sys.argv[1])
"""
CALLS = """
import json, sys
from openai import OpenAI
client, model = OpenAI(), sys.argv[1]
asked = {"model": model, "messages": [{"role": "user", "content": "hello"}], "max_tokens": 8}
whole = client.chat.completions.create(**asked)
pieces = list(client.chat.completions.create(**asked, stream=True))
text = client.completions.create(model=model, prompt="hello", max_tokens=8)
limited = client.chat.completions.with_raw_response.create(**asked, temperature=0.5, top_p=0.9, seed=1)
print(json.dumps({
    "whole": [whole.choices[0].finish_reason, whole.usage.completion_tokens],
    "stream": [pieces[-1].choices[0].finish_reason if pieces[-1].choices else "usage", len(pieces) > 1],
    "completion": text.choices[0].finish_reason,
    "receipt": len(limited.headers["affiant-receipt-id"]),
}))
"""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """The engine's base URL, and the name of its model."""
    if not COMMAND.exists():
        pytest.skip("no transformers with torch here: scripts/install_test_tools.sh names how to install it")
    folder = tmp_path_factory.mktemp("engine")
    (folder / "hub").mkdir()
    env = {**os.environ, "HF_HOME": str(folder), "HF_HUB_CACHE": str(folder / "hub"), "HF_HUB_OFFLINE": "1"}
    model = folder / "model"
    subprocess.run(
        [COMMAND.with_name("python"), "-c", MAKE_MODEL, str(model)], env=env, check=True, capture_output=True
    )
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with (folder / "log").open("wb") as log:
        serve = subprocess.Popen(
            [COMMAND, "serve", str(model), "--device", "cpu", "--port", str(port)],
            env=env, stdout=log, stderr=log,
        )  # fmt: skip
    try:
        until = time.monotonic() + 120
        while not _answers(f"http://127.0.0.1:{port}/health"):
            assert serve.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < until, (folder / "log").read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1", str(model)
    finally:
        serve.terminate()
        serve.wait(20)


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as response:
            return response.status == 200
    except OSError:
        return False


@pytest.mark.slow
def test_the_official_client_uses_a_real_engine_and_every_call_is_receipted(
    machine, engine: tuple[str, str], tmp_path: Path
) -> None:
    if not prepared_runtime.fits():
        pytest.skip("the client's packages do not fit the sandbox's python3")
    runtime = prepared_runtime.make_runtime(machine.folder / "engine-runtime", "openai")
    base, model = engine
    bundle = tmp_path / "bundle.json"
    options = ("--upstream", base, "--runtime", str(runtime), "--bundle", str(bundle))
    done = machine.run("python3", "-c", CALLS, model, options=options, timeout=180)
    assert done.returncode == 0, done.stderr.decode()
    assert json.loads(done.stdout) == {
        "whole": ["length", 8],
        "stream": ["length", True],
        "completion": "length",
        "receipt": 22,
    }
    text = machine.verdict(bundle, code=20)
    assert "4 inference" in text
    refused = {line.split()[1].rstrip(":") for line in text.splitlines() if line.startswith("REFUSED")}
    assert refused == {"conf.not_accepted"}, "the user's own upstream, and nothing else"
