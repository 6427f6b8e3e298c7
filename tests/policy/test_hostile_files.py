"""Files that somebody damaged or made to do damage: refused with a code, or loaded and then what they say."""

from __future__ import annotations

import random
import re
import tracemalloc
from pathlib import Path

import pytest

from affiant.errors import AffiantError
from affiant.policy.decision.compiled import parse_normal_form
from affiant.policy.lint.lint import lint_profiles
from affiant.policy.loading.all_errors import every_refusal
from affiant.policy.loading.load import load_profiles

ROOT = Path(__file__).resolve().parents[2] / "policy"
WORDS = [
    *(
        b"deny",
        b"allow",
        b"host",
        b"port",
        b"one_of",
        b"argv",
        b"each",
        b"pattern",
        b"under",
        b"any",
        b"optional",
    ),
    *(
        b"tests",
        b"floor",
        b"version",
        b"secrets_access",
        b"inject",
        b"query",
        b"models",
        b"attested",
        b"resources",
    ),
    *(
        b"*.x.com",
        b"**.",
        b"/**",
        b"..",
        b"%2f",
        b"xn--a",
        b"10.0.0.0/8",
        b"::/0",
        b"vault:",
        b"ghp_{36}",
        b"{999999999}",
    ),
    *(
        b"null",
        b"true",
        b"~",
        b"1e3",
        b"0x10",
        b"-1",
        b"9" * 40,
        b"2GiB",
        b"9999999999TiB",
        b":65536",
        b"[a-z]{1,999}",
    ),
    *(
        b"&a",
        b"*a",
        b"!!str",
        b"<<",
        b"- ",
        b": ",
        b"{",
        b"}",
        b"[",
        b"]",
        b"\n",
        b"  ",
        b"\t",
        b'"',
        b"'",
        b"#",
        b"|",
    ),
    *(
        b"\x00",
        b"\xff",
        b"\xe2\x80\xae",
        b"\xef\xbb\xbf",
        b"e\xcc\x81",
        b"\xc3\xa9",
        b"\xf0\x9f\x92\xa9",
        b"(a|b)*a{9}",
    ),
]


SECRET = """\
agent_configs:
  dev:
    network_egress: [{host: api.example.com, methods: [GET], paths: [/v1/**]}]
    secrets_access:
      - name: KEY
        %s
"""


def corpus() -> list[bytes]:
    """Whole files: the profiles, the page's example of one, and one around each of its lines about a secret's use."""
    found = [path.read_bytes() for path in sorted((ROOT / "profiles").glob("*.yaml"))]
    blocks = re.findall(r"```yaml\n(.*?)```", (ROOT / "FORMAT.md").read_text(), re.DOTALL)
    files = [each for each in blocks if "agent_configs:" in each]
    uses = [line for each in blocks if each.startswith("inject:") for line in each.splitlines()]
    assert files and uses
    return [*found, *(each.encode() for each in (*files, *(SECRET % use for use in uses)))]


def damaged(data: bytes, source: random.Random, others: list[bytes]) -> bytes:
    text = bytearray(data)
    for _ in range(source.choice([1, 1, 1, 2, 3, 6])):
        at = source.randrange(len(text) + 1)
        end = min(len(text), at + source.choice([1, 2, 4, 8, 20, 60]))
        match source.randrange(6):
            case 0 if at < len(text):
                text[at] = source.randrange(256)
            case 1:
                del text[at:end]
            case 2:
                text[at : source.choice([at, end])] = source.choice(WORDS)
            case 3:
                text[at:at] = text[at:end] * source.choice([1, 2, 50])
            case 4:
                other = source.choice(others)
                begin = source.randrange(len(other))
                text[at:end] = other[begin : begin + source.choice([4, 20, 80])]
            case _:
                words = list(re.finditer(rb"[A-Za-z_.-]+", bytes(text)))
                if words:
                    word = source.choice(words)
                    text[word.start() : word.end()] = source.choice([*WORDS, source.choice(words).group()])
    return bytes(text)


def held(count: int, seed: int) -> tuple[int, int]:
    """How many loaded and how many were refused, of as many damaged files."""
    source, others = random.Random(seed), corpus()
    loaded = refused = 0
    for _ in range(count):
        data = damaged(source.choice(others), source, others)
        try:
            profiles = load_profiles(data)
        except AffiantError as refusal:
            refused += 1
            assert re.fullmatch(r"policy\.[a-z_]+", refusal.code)
            assert str(refusal).isprintable()
            assert every_refusal(data, source="profiles.yaml") or refusal.code == "policy.floor"
            continue
        loaded += 1
        lint_profiles(profiles)
        for profile in profiles.profiles.values():
            assert parse_normal_form(profile.normal_form).digest == profile.digest
    return loaded, refused


def test_a_damaged_file_is_refused_with_a_code_or_is_what_it_says() -> None:
    loaded, refused = held(600, seed=1)
    assert loaded > 30 and refused > 200


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("seed", range(4))
def test_very_many_damaged_files_are_refused_with_a_code_or_are_what_they_say(seed: int) -> None:
    held(15_000, seed=100 + seed)


def bomb() -> bytes:
    """Ten lists of ten aliases each: ten thousand million values, if a reader followed them."""
    lines = ["agent_configs:", "  a0: &a0 [" + "x, " * 10 + "x]"]
    for number in range(1, 11):
        lines.append(f"  a{number}: &a{number} [" + f"*a{number - 1}, " * 9 + f"*a{number - 1}]")
    return "\n".join(lines).encode()


@pytest.mark.parametrize(
    "data",
    [
        b"agent_configs: " + b"[" * 60_000 + b"]" * 60_000,
        b"agent_configs: " + b"{a: " * 60_000 + b"}" * 60_000,
        b"agent_configs:\n" + b"- " * 60_000 + b"x\n",
        bomb(),
    ],
    ids=["lists", "mappings", "blocks", "aliases"],
)
def test_neither_depth_nor_aliases_take_memory(data: bytes) -> None:
    tracemalloc.start()
    try:
        with pytest.raises(AffiantError) as refused:
            load_profiles(data)
        assert tracemalloc.get_traced_memory()[1] < 32 << 20
    finally:
        tracemalloc.stop()
    assert refused.value.code in {"policy.too_large", "policy.yaml_feature"}


@pytest.mark.slow
def test_the_memory_of_a_hostile_file_is_bounded_by_its_size() -> None:
    hostile = [
        b"agent_configs: {" + b", ".join(b"a%d: {tools: [x]}" % number for number in range(20_000)) + b"}",
        b"agent_configs: {a: {tools: [" + b"x, " * 100_000 + b"x]}}",
        b"agent_configs: {a: {tools: [{name: x, args: {" + b"y: {one_of: [1]}, " * 10_000 + b"}}]}}",
        b"agent_configs: {a: {tools: ["
        + b"{name: x, args: {b: {pattern: '[a-z]{1,500}'}}}, " * 5_000
        + b"x]}}",
    ]
    for data in hostile:
        tracemalloc.start()
        try:
            with pytest.raises(AffiantError):
                load_profiles(data)
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()
