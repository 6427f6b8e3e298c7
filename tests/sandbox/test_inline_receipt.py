"""An agent with the unmodified openai package gets its receipt in the answer, and both hold."""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import json
import shutil
import ssl
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest

from affiant.attestation.encoding.binary_text import b64u
from affiant.attestation.records.receipt import parse_receipt, verify_receipt
from affiant.attestation.statements.statement import parse_statement

NONCE = b64u(bytes(range(32)))
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
ASK = f"""
import base64, json
from openai import OpenAI
client = OpenAI()
def wish(span, nonce="{NONCE}"):
    headers = {{"Affiant-Receipt": "inline", "Affiant-Nonce": nonce, "traceparent": f"00-{TRACE}-{{span:016x}}-01"}}
    return dict(model="affiant-dev-echo", messages=[dict(role="user", content="hello from inside")],
                extra_headers=headers)
whole = client.chat.completions.with_raw_response.create(**wish(1))
told = [dict(text=whole.parse().choices[0].message.content, receipt=whole.headers["affiant-receipt"],
             raw=base64.b64encode(whole.content).decode())]
chunks = client.chat.completions.create(**wish(2), stream=True)
parsed = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
with client.chat.completions.with_streaming_response.create(**wish(3), stream=True) as stream:
    raw = b"".join(stream.iter_bytes())
before, _, rest = raw.partition(b": affiant-receipt ")
receipt, _, end = rest.partition(b"\\n")
told.append(dict(text=parsed, receipt=receipt.decode(), raw=base64.b64encode(before + end).decode()))
refused = client.chat.completions.with_raw_response
try:
    refused.create(**wish(4, nonce="short"))
except Exception as error:
    told.append(dict(status=error.status_code, message=str(error)))
print(json.dumps(told))
"""
PACKAGES = [
    *(
        "openai",
        "httpx2",
        "httpx",
        "httpcore2",
        "httpcore",
        "h11",
        "anyio",
        "sniffio",
        "certifi",
        "idna",
        "truststore",
    ),
    *("distro", "tqdm", "jiter", "pydantic", "pydantic_core", "annotated_types", "typing_inspection"),
]


@pytest.fixture(scope="module")
def runtime(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What the agent imports, copied from the environment of the tests."""
    inside = subprocess.run(["/usr/bin/python3", "-V"], capture_output=True, check=True).stdout.split()[1]
    if inside.split(b".")[:2] != [b"%d" % part for part in sys.version_info[:2]]:
        pytest.skip("the python3 inside is another than the one that the packages are made for")
    folder = tmp_path_factory.mktemp("runtime") / "prepared"  # one that the agent's user may read
    libraries = folder / "lib"
    libraries.mkdir(parents=True)
    site = Path(str(importlib.metadata.distribution("openai").locate_file("")))
    for package in PACKAGES:
        for found in (site / package, *site.glob(f"{package}-*.dist-info")):
            if found.is_dir():
                shutil.copytree(found, libraries / found.name, ignore=shutil.ignore_patterns("__pycache__"))
    for module in site.glob("*.py"):
        if module.name.startswith("typing_extensions"):
            shutil.copy(module, libraries)
    return folder


def keyset_of(machine) -> bytes:
    url = json.loads((machine.home / "gateway" / "gateway.json").read_bytes())["url"]
    context = ssl._create_unverified_context()
    with urllib.request.urlopen(f"{url}/.well-known/affiant/keyset", context=context) as answer:
        return answer.read()


@pytest.mark.slow
def test_an_agent_with_the_openai_package_gets_its_receipt_in_the_answer(warm, runtime, tmp_path):
    bundle = tmp_path / "b.json"
    begun = time.time_ns()
    command = ("env", "PYTHONPATH=/opt/runtime/lib", "python3", "-c", ASK)
    done = warm.run(*command, options=("--runtime", str(runtime), "--bundle", str(bundle)))
    assert done.returncode == 0, done.stderr
    whole, stream, refused = json.loads(done.stdout)
    statement = parse_statement(keyset_of(warm))
    kept = bundle.read_text()
    for told, span in ((whole, 1), (stream, 3)):
        receipt = verify_receipt(parse_receipt(told["receipt"]), statement)
        assert "hello from inside" in told["text"]
        digest = hashlib.sha256(base64.b64decode(told["raw"])).hexdigest()
        assert receipt.disclosed.get("res.dig") == f"sha256:{digest}"
        assert receipt.member("eat_nonce") == NONCE
        assert receipt.disclosed.get("trc") == {"t": TRACE, "s": f"{span:016x}"}
        assert told["receipt"].partition("~")[0] in kept
    assert refused["status"] == 400 and "Affiant-Nonce" in refused["message"]
    warm.verdict(bundle)
    (tmp_path / "spans.jsonl").write_text(spans(begun, time.time_ns()))
    found = json.loads(warm.reconciled(bundle, "--spans", str(tmp_path / "spans.jsonl"), "--json"))
    assert (found["matched_by"], found["items"]["matched"]) == ({"trace": 4}, 4)


def spans(begun: int, ended: int) -> str:
    """What the agent's own instrumentation would have exported: one span for each request, the refused one too."""
    each = [
        {
            "traceId": TRACE,
            "spanId": f"{number:016x}",
            "startTimeUnixNano": str(begun),
            "endTimeUnixNano": str(ended),
            "attributes": [{"key": "gen_ai.operation.name", "value": {"stringValue": "chat"}}],
        }
        for number in range(1, 5)
    ]
    return json.dumps({"resourceSpans": [{"scopeSpans": [{"spans": each}]}]}) + "\n"
