"""The picture: nothing overlaps, nothing lies outside, and every line ends at its boxes."""

from __future__ import annotations

from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st
from tests.policy import policies as some
from tests.policy.placed_profiles import profile
from tests.policy.review_page.conftest import Page, made_review
from tests.policy.review_page.examples import NEW, many
from tests.properties import thorough

from affiant.policy.authority.authority import authority_of
from affiant.policy.review.graph import KINDS, Node, graph_of
from affiant.policy.review_page.layout import CHARACTER, WIDTH, Box, laid_out
from affiant.policy.review_page.page import render_review
from affiant.policy.review_page.pictures import pictures


def overlap(one: Box, other: Box) -> bool:
    apart = one.x + one.width <= other.x or other.x + other.width <= one.x
    return not (apart or one.y + one.height <= other.y or other.y + other.height <= one.y)


@thorough(40)
@given(st.lists(some.policies(), min_size=1, max_size=4))
def test_boxes_neither_overlap_nor_leave_the_picture(policies) -> None:
    graph = graph_of([authority_of(profile(each, f"agent-{at}")) for at, each in enumerate(policies)])
    drawing = laid_out(graph)
    assert {box.node for box in drawing.boxes} == set(graph.nodes)
    assert not any(overlap(*each) for each in combinations(drawing.boxes, 2))
    for box in drawing.boxes:
        assert 0 <= box.x and box.x + box.width <= WIDTH
        assert 0 <= box.y and box.y + box.height <= drawing.height
        assert all(len(line) * CHARACTER <= box.width for line in box.lines)


@thorough(40)
@given(st.lists(some.policies(), min_size=1, max_size=3))
def test_lines_leave_and_meet_their_boxes_at_places_of_their_own(policies) -> None:
    drawing = laid_out(
        graph_of([authority_of(profile(each, f"agent-{at}")) for at, each in enumerate(policies)])
    )
    boxes = {box.node: box for box in drawing.boxes}
    for wire in drawing.wires:
        start, end = boxes[wire.edge.start], boxes[wire.edge.end]
        assert wire.start[0] == start.x + start.width and wire.end[0] == end.x
        assert wire.start[0] < wire.end[0]
        assert start.y < wire.start[1] < start.y + start.height
        assert end.y < wire.end[1] < end.y + end.height
    for ends in ([wire.start for wire in drawing.wires], [wire.end for wire in drawing.wires]):
        assert len(set(ends)) == len(ends)


def test_a_secrets_way_leads_through_the_agent_to_the_host() -> None:
    graph = graph_of(made_review(NEW).new.agents)
    carried = [(edge.start.name, edge.end.name) for edge in graph.edges if edge.carries]
    assert ("READ_TOKEN", "triage") in carried
    assert ("triage", "api.github.com") in carried
    assert ("LOST", "deployer") not in carried
    assert graph.notes[Node("secret", "LOST")] == "usable nowhere"
    assert graph.notes[Node("host", "api.github.com")].startswith("with READ_TOKEN: GET, POST")


def test_a_name_that_does_not_fit_is_cut_in_its_middle_and_whole_in_the_title() -> None:
    path = "/w/" + "x" * 90 + "/end"
    review = made_review(f"agent_configs: {{a: {{filesystem_access: read:{path}}}}}")
    (box,) = [box for box in laid_out(graph_of(review.new.agents)).boxes if box.node.kind == "file"]
    assert len(box.lines) == 2
    assert "\u2026" in "".join(box.lines) and box.lines[1].endswith("/end")
    assert f"<title>{path}</title>" in render_review(review)


def test_few_agents_share_a_picture_and_many_have_their_own() -> None:
    few, lots = made_review(NEW), made_review(many(7, rules=40))
    assert pictures(few)["by_agent"] == {}
    assert render_review(few).count('role="img"') == 1
    assert pictures(lots)["all"] is None
    page = Page(render_review(lots))
    assert len(page.all("figure")) == 7
    assert "each agent has its own" in page.text
    for drawn in pictures(lots)["by_agent"].values():
        assert "and 13 more" in [box["name"] for box in drawn["boxes"]]
        assert len(drawn["boxes"]) <= 1 + 4 * 8
    starting = many(7, rules=40) + "  dev:\n    may_start: [other]\n  other: {}\n"
    assert {"dev"} == {name for name in pictures(made_review(starting))["by_agent"] if "team" not in name}
    assert set(KINDS.values()) == {
        "Secrets",
        "Files",
        "Agents",
        "Tools",
        "Provider tools",
        "Hosts",
        "Ports",
        "Agents to start",
    }


def notes_of(text: str) -> dict[str, str]:
    graph = graph_of(made_review(text).new.agents)
    return {node.name: note for node, note in graph.notes.items()}


def test_a_secrets_note_counts_hosts_and_a_tools_note_says_which_calls() -> None:
    hosts = "[a.com, 'a.com:8443']"
    egress = "[{host: a.com}, {host: a.com, port: 8443}, {host: b.com}]"
    text = (
        f"agent_configs: {{dev: {{tools: [free, {{name: held, args: {{n: {{max: 2}}}}}}], network_egress: {egress}, "
        f"secrets_access: [{{name: ONE, hosts: {hosts}}}, {{name: TWO, hosts: [a.com, 'a.com:8443', b.com]}}]}}}}"
    )
    notes = notes_of(text)
    assert notes["ONE"] == "to a.com, 2 ports"
    assert notes["TWO"] == "to 2 hosts"
    assert notes["free"] == "any call"
    assert notes["held"] == "with n: at most 2"
