"""The shape of the tree: packages, rooms and their order, what a program can import, what the base install needs."""

from __future__ import annotations

import ast
import itertools
import json
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping
from collections.abc import Set as AbstractSet
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import pytest

from affiant.attestation.release.closure import import_graph, module_name, reachable

ROOT = Path(__file__).resolve().parents[1]
FLOORS = ("attestation", "policy", "secrets", "sandbox", "gateway")
MAX_MODULES = 15

ROOMS: Mapping[str, tuple[str, ...]] = {
    "attestation": (
        "",
        *("encoding", "release", "schema"),
        *(
            "tdx.quote",
            "tdx.event_log",
            "tdx.pki",
            "tdx.tcb",
            "tdx.verify",
            "tdx.appraise",
            "tdx.policy",
        ),
        *("tlog", "log_reading"),
        *(
            "signatures",
            "signatures.timestamps",
            "signatures.sigstore",
            "signatures.approvers",
            "signatures.profiles",
        ),
        *("statements", "records"),
        *("simulated.platform", "simulated.served"),
        *("bundle", "bundle.period"),
        *("verdict", "anchors", "erasure"),
        *("quote.collateral", "quote.providers.base", "quote.providers.kernel", "quote.providers.tpm"),
        *("quote.providers.clouds", "quote.judge", "quote.providers", "quote.show"),
        *("log.fsck", "log.publish", "log.witness", "log.monitor"),
        *("verifier.case", "verifier.checks", "verifier", "verifier.period.log", "verifier.report"),
        *("verifier.period", "verifier.files"),
        *("audit.receipts", "audit.records_of_others", "audit.reconcile", "audit.reconcile_report"),
        *("cli.log", "cli.options", "cli.platform", "cli.bundle", "cli.collateral", "cli.quote"),
    ),
    "policy": (
        *(
            "canonical",
            "rendering",
            "model",
            "approvals",
            "normal_form",
            "decision",
            "loading",
            "decision_log",
            "editor",
        ),
        *(
            "signing",
            "diff",
            "exports",
            "authority",
            "learn",
            "lint",
            "testing",
            "replay",
            "review",
            "review_page",
        ),
        "",
    ),
    "secrets": (
        "",
        *("names", "redaction", "store", "injection"),
        *("broker.client", "broker.tokens", "broker"),
    ),
    "sandbox": (
        *("base", "egress.http", "egress", "workspace"),
        *("isolation.plan", "isolation.backends", "isolation.runner", "runtimes", "processes"),
        *(
            "supervisor.launch",
            "supervisor.records",
            "supervisor.gateway",
            "supervisor.children",
            "supervisor",
        ),
        *(
            "session_state",
            "session_acts",
            "pools",
            "session",
            "detached",
            "api",
            "openai_agents",
            "session_server",
            "cli",
            "",
        ),
    ),
    "gateway": (
        "",
        *(
            "wire",
            "dialects",
            "dialects.chat",
            "dialects.messages",
            "dialects.plain",
            "dialects.responses",
            "store",
            "log",
            "sessions",
            "approvals",
            "bundles",
            "upstream",
            "admission",
            "config",
        ),
        *("erasure", "requests", "tool_gate", "tool_servers", "service", "inference", "process", "cli"),
    ),
}
"""The rooms of each package, low to high: a room imports only what stands before it, and other packages below its own.
A room is a folder with modules; ``""`` is the package's own folder."""


class Bound(NamedTuple):
    """What a program may be able to import, at most; and what it should be one day, where that is less."""

    programs: tuple[str, ...]
    files: int | None = None
    lines: int | None = None
    goal: int | None = None


CLOSURES: Mapping[str, Bound] = {
    # above the goal: closed lists for each dialect, approvals that hold calls in responses, interrupted answers; what
    # dialects share: 8 files; their routes: 2; those without tools: 3; stream ends: 1; headers, pauses: 3; which
    # sessions are children: 1; the Responses API: 5, what upstreams keep for it: 2, its echo: 1; Anthropic's
    # messages: 4
    "gateway": Bound(("affiant.gateway.process.server",), files=349, goal=300),
    # above the goal: many commands in one sandbox, its files and ports from outside, acts with numbers, the template
    "session": Bound(
        (
            "affiant.sandbox.supervisor.__main__",
            "affiant.secrets.broker.process",
            "affiant.sandbox.isolation.runner.runner",
        ),
        # the table of agents' routes: 1; given_trees: a supervisor from a pool cannot read the trees; an agent's calls
        # about sessions that it starts: 8
        files=344,
        goal=320,
    ),
    # above the goal: words for every check; outcome, platform and open sessions as facts; records of restrictions and
    # acts; 18 lines are names that dialects' lists take, and forwarded headers; 3 name the reason of a check that is
    # beyond the verifier; 124 are shapes compiled for those who sign or read thousands of records; 106 judge a record
    # by its text, and gather what many records name alike
    "verify_bundle": Bound(("affiant.attestation.verifier.verify_bundle",), lines=12_954, goal=12_000),
    # above the goal: the same, and what a report says first; a long session's records on disk; 19 lines bound its
    # length; 110 are compiled shapes; 139 judge records by their text, and compile the shapes of kinds that come often
    "affiant verify": Bound(("affiant.attestation.cli.bundle.verify_command",), lines=31_085, goal=15_000),
    # above the goal: a part of a secret in an answer is found; 41 are single values and series written quickly; 6 are
    # base64url that is decoded without encoding it again
    "broker": Bound(("affiant.secrets.broker.process",), lines=9_140, goal=9_000),
}
"""The closures of the programs that others must read, or trust: imports inside functions count."""

ENDINGS = ("ations", "ation", "ings", "ing", "ions", "ion", "ers", "ies", "ed", "er", "es", "s", "e", "y")

NOT_OF_ONE_ROOM: Mapping[str, str] = {
    "attestation": "whole pages, and stories that every room shares",
    "attestation.fault_scenarios": "mirrors attestation/fault_scenarios",
    "attestation.fault_scenarios.cli": "mirrors attestation/fault_scenarios/cli",
    "attestation.tdx": "the checklist, the vectors and the other verifier, over all of its rooms",
    "attestation.vectors": "mirrors attestation/vectors",
    "attestation.verifier_js": "mirrors attestation/verifier-js",
    "attestation.simulated": "the served platform, for tests of both of its rooms",
    "gateway": "a whole gateway, in process",
    "policy": "the format's page, and commands over all rooms",
    "sandbox": "`affiant run` as a whole",
    "sandbox.isolation": "what can be seen from inside, under both backends",
    "secrets": "the servers that tests of all rooms talk to",
}
"""Folders of tests that mirror no folder with modules, and why."""

BASE_MODULES = (
    "affiant.attestation.cli.bundle.verify_command",
    "affiant.attestation.cli.collateral.commands",
    "affiant.attestation.signatures.profiles.verification",
    "affiant.attestation.cli.quote.policy_signing_commands",
    "affiant.attestation.signatures.sigstore.verification",
    "affiant.attestation.cli.quote.commands",
    "affiant.attestation.cli.log.commands",
    "affiant.attestation.cli.log.witness_commands",
    "affiant.attestation.cli.bundle.receipts_commands",
    "affiant.attestation.audit.receipts.indexing",
    "affiant.attestation.cli.bundle.reconcile_commands",
    "affiant.attestation.audit.reconcile_report.following",
    "affiant.policy.commands",
    "affiant.gateway.bundles.bundle_commands",
    "affiant.gateway.erasure.erase_commands",
    "affiant.__main__",
)
EXTRAS = (
    "agents",
    "fastapi",
    "msgspec",
    "httpx",
    "hvac",
    "obstore",
    "openai",
    "pydantic",
    "uvicorn",
    "requests",
    "h11",
    "httptools",
    "opentelemetry",
    "sigstore",
    "sigstore_models",
    "rfc3161_client",
)


def sources(floor: str) -> list[Path]:
    return sorted((ROOT / floor / "affiant").rglob("*.py"))


@cache
def nodes(path: Path) -> tuple[ast.Import | ast.ImportFrom | ast.Attribute, ...]:
    """What these tests look at of one file."""
    found = ast.walk(ast.parse(path.read_text()))
    return tuple(node for node in found if isinstance(node, (ast.Import, ast.ImportFrom, ast.Attribute)))


def imported(path: Path) -> set[str]:
    names: set[str] = set()
    for node in nodes(path):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and node.level == 0:
            names.add(node.module)
            names |= {f"{node.module}.{alias.name}" for alias in node.names}
    return names


@cache
def modules() -> Mapping[str, Path]:
    """Every module of the five packages, by name."""
    return {
        module_name(path.relative_to(ROOT / floor).as_posix()): path
        for floor in FLOORS
        for path in sources(floor)
    }


@cache
def imports() -> Mapping[str, frozenset[str]]:
    """What each module imports, also for type checkers alone; its packages left out."""
    known = modules()
    return {
        name: frozenset(
            found for found in imported(path) & known.keys() if known[found].name != "__init__.py"
        )
        for name, path in known.items()
    }


def room_of(module: str) -> str:
    """``affiant.policy.diff.report`` is in ``policy.diff``."""
    return module.rpartition(".")[0].removeprefix("affiant").removeprefix(".")


def wing_of(module: str) -> str:
    return ".".join(module.split(".")[1:3])


def in_rooms() -> Iterator[str]:
    """The modules that are no packages, and not the few that all packages share."""
    for name, path in modules().items():
        if path.name != "__init__.py" and room_of(name):
            yield name


def test_no_folder_holds_more_than_fifteen_modules() -> None:
    held: defaultdict[Path, int] = defaultdict(int)
    for path in modules().values():
        held[path.parent] += path.name != "__init__.py"
    assert {
        folder.relative_to(ROOT).as_posix(): count for folder, count in held.items() if count > MAX_MODULES
    } == {}


def test_every_room_has_its_place_in_the_order() -> None:
    order = [".".join(filter(None, (package, room))) for package, rooms in ROOMS.items() for room in rooms]
    assert len(set(order)) == len(order)
    assert {room_of(name) for name in in_rooms()} == set(order)


def test_every_wing_says_where_to_begin() -> None:
    for package in FLOORS:
        root = ROOT / package / "affiant" / package
        for wing in {room.partition(".")[0] for room in ROOMS[package]} - {""}:
            assert (root / wing / "README.md").exists(), f"{package}/{wing}"


def test_no_room_imports_upward() -> None:
    order = [".".join(filter(None, (package, room))) for package, rooms in ROOMS.items() for room in rooms]
    rank = {room: number for number, room in enumerate(order)}
    upward = [
        f"{name} imports {other}"
        for name in in_rooms()
        for other in imports()[name]
        if room_of(other) and rank[room_of(other)] > rank[room_of(name)]
    ]
    assert upward == []


def test_no_wings_import_each_other_in_a_circle() -> None:
    wings: defaultdict[str, set[str]] = defaultdict(set)
    for name in in_rooms():
        wings[wing_of(name)] |= {wing_of(other) for other in imports()[name] if room_of(other)} - {
            wing_of(name)
        }
    try:
        TopologicalSorter(wings).prepare()
    except CycleError as error:
        pytest.fail(f"a circle: {' -> '.join(error.args[1])}")


def test_imports_are_absolute() -> None:
    for path in modules().values():
        for node in nodes(path):
            assert not isinstance(node, ast.ImportFrom) or node.level == 0, path


def stem(word: str) -> str:
    """``word`` without its ending; at least four letters stay."""
    for ending in ENDINGS:
        if word.endswith(ending) and len(word) - len(ending) >= 4:
            return word.removesuffix(ending)
    return word


@pytest.mark.parametrize("package", FLOORS)
def test_no_two_modules_differ_in_an_ending_only(package: str) -> None:
    names = sorted({name.rpartition(".")[2] for name in in_rooms() if name.split(".")[1] == package})
    alike = [pair for pair in itertools.combinations(names, 2) if stem(pair[0]) == stem(pair[1])]
    assert alike == []


@cache
def graph() -> Mapping[str, AbstractSet[str]]:
    texts = {name: path.read_text for name, path in modules().items()}
    return import_graph(texts, [each for bound in CLOSURES.values() for each in bound.programs])


def closure(program: str) -> AbstractSet[str]:
    """The modules that ``program`` can import."""
    return reachable(graph(), CLOSURES[program].programs)


@pytest.mark.parametrize("program", CLOSURES)
def test_what_a_program_can_import_is_bounded(program: str, record_property: pytest.RecordProperty) -> None:
    bound = CLOSURES[program]
    found = closure(program)
    files, lines = len(found), sum(modules()[name].read_text().count("\n") for name in found)
    print(f"{program}: {files} files, {lines} lines" + (f"; the goal is {bound.goal}" if bound.goal else ""))
    record_property("files", files)
    record_property("lines", lines)
    assert bound.files is None or files <= bound.files
    assert bound.lines is None or lines <= bound.lines


@pytest.mark.parametrize("program", ["gateway", "session"])
def test_a_measured_program_can_import_no_exception_of_a_readers_policy(program: str) -> None:
    found = closure(program)
    assert "affiant.attestation.tdx.appraise.appraisal" in found
    assert not [name for name in found if name.startswith("affiant.attestation.tdx.policy")]


def test_tests_mirror_the_rooms() -> None:
    rooms = {room_of(name) for name in in_rooms()}
    where: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for name in in_rooms():
        where[name.split(".")[1], name.rpartition(".")[2]].add(room_of(name))
    for package in FLOORS:
        for test in (ROOT / "tests" / package).rglob("test_*.py"):
            folder = ".".join(test.parent.relative_to(ROOT / "tests").parts)
            assert folder in rooms or folder in NOT_OF_ONE_ROOM, f"{folder} mirrors no room"
            of = where.get((package, test.stem.removeprefix("test_")))
            if folder in rooms and folder not in NOT_OF_ONE_ROOM and of is not None:
                assert folder in of, f"{test.relative_to(ROOT)} is about a module of {sorted(of)}"


def test_no_stray_init_shadows_a_package_or_the_standard_library() -> None:
    for floor in FLOORS:
        assert not (ROOT / floor / "__init__.py").exists()
        assert not (ROOT / floor / "affiant" / "__init__.py").exists()


def test_the_standard_library_secrets_is_importable_from_the_root() -> None:
    code = "import secrets; assert secrets.token_bytes(4)"
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, timeout=30)


@pytest.mark.parametrize("floor", FLOORS)
def test_a_lower_floor_never_imports_a_higher_one(floor: str) -> None:
    higher = tuple(f"affiant.{name}" for name in FLOORS[FLOORS.index(floor) + 1 :])
    for path in sources(floor):
        for name in imported(path):
            assert not name.startswith(higher), f"{path.relative_to(ROOT)} imports {name}"


@pytest.mark.parametrize("floor", FLOORS)
def test_every_component_is_typed(floor: str) -> None:
    assert (ROOT / floor / "affiant" / floor / "py.typed").exists()


@pytest.fixture(scope="module")
def without_extras() -> dict[str, str | None]:
    """Module of the base install -> what went wrong when one process imported them all without any extra."""
    code = (
        "import importlib, json, sys, traceback\n"
        f"for name in {EXTRAS!r}: sys.modules[name] = None\n"
        "found = {}\n"
        f"for module in {BASE_MODULES!r}:\n"
        "    try: found[module] = importlib.import_module(module) and None\n"
        "    except BaseException: found[module] = traceback.format_exc()\n"
        "print(json.dumps(found))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    return dict(json.loads(done.stdout))


@pytest.mark.parametrize("module", BASE_MODULES)
def test_the_base_install_needs_no_extra(without_extras: dict[str, str | None], module: str) -> None:
    assert without_extras[module] is None, without_extras[module]


def test_the_verifier_talks_to_nothing() -> None:
    """No module of ours that `affiant verify` or `affiant quote` loads imports a way out of the process."""
    code = (
        "import importlib, json, pkgutil, sys\n"
        "importlib.import_module('affiant.attestation.cli.bundle.verify_command')\n"
        "import affiant.attestation.quote.judge as judge, affiant.attestation.quote.show as show\n"
        "for room in (judge, show):\n"
        "    for found in pkgutil.iter_modules(room.__path__, room.__name__ + '.'):\n"
        "        importlib.import_module(found.name)\n"
        "print(json.dumps([m.__file__ for n, m in sys.modules.items() if n.startswith('affiant.') and m.__file__]))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    )
    loaded = [Path(name) for name in json.loads(done.stdout)]
    assert len(loaded) > 20
    for path in loaded:
        out = imported(path) & {"socket", "ssl", "asyncio", "http.client", "urllib.request", "subprocess"}
        assert not out, f"{path} imports {out}"


def ambient(path: Path) -> set[str]:
    """Calls of the clock, the environment and the random generator in one file."""
    found = set()
    for node in nodes(path):
        if isinstance(node, ast.Attribute):
            found.add(ast.unparse(node))
    return found & {"datetime.now", "datetime.utcnow", "time.time", "os.environ", "os.getenv", "os.urandom"}


def test_the_clock_and_the_environment_are_read_only_at_the_rim() -> None:
    """Sans-IO: the core of attestation and policy takes time, randomness and environment as arguments."""
    for floor in ("attestation", "policy"):
        for path in sources(floor):
            if not at_the_boundary(path):
                assert not ambient(path), f"{path.relative_to(ROOT)} reads {ambient(path)}"


def at_the_boundary(path: Path) -> bool:
    """Whether a module may read the clock and the environment: a command, the state folder's default, the
    release, the simulated platform."""
    return bool(re.search(r"(commands?|options?|__main__|folders)\.py$", path.name)) or not {
        "cli",
        "release",
        "simulated",
    }.isdisjoint(path.parts)


def test_every_folder_of_the_tree_has_a_readme() -> None:
    for folder in [*FLOORS, "infra", "tests", "benchmarks", "examples", "docs", "scripts"]:
        assert (ROOT / folder / "README.md").exists(), folder
