"""The page as a whole: what it holds, in which order, and that it can load and run nothing else."""

from __future__ import annotations

import base64
import hashlib
import re
from html import unescape
from itertools import pairwise

import pytest
from tests.policy.review_page.conftest import Page, made_review, policy_file
from tests.policy.review_page.examples import NEW, OLD, many

from affiant.policy.lint.codes import ADVICE, WARNINGS
from affiant.policy.review_page import matrix_tables
from affiant.policy.review_page import warnings as warned
from affiant.policy.review_page.page import TEMPLATES, render_review
from affiant.policy.review_page.warnings import TITLES

SVG = {"svg", "g", "path", "rect", "text", "title"}
HTML = {
    *(
        "html",
        "head",
        "meta",
        "title",
        "style",
        "script",
        "body",
        "header",
        "nav",
        "main",
        "footer",
        "section",
    ),
    *("h1", "h2", "h3", "p", "ul", "ol", "li", "a", "b", "strong", "code", "span", "dl", "dt", "dd", "div"),
    *(
        "table",
        "caption",
        "colgroup",
        "thead",
        "tbody",
        "tr",
        "th",
        "td",
        "figure",
        "label",
        "input",
        "output",
    ),
}


STYLE = (TEMPLATES / "style.css").read_text()
LIGHT, DARK = (
    dict(re.findall(r"--(\w+):(#[0-9a-f]{6})", block))
    for block in re.findall(r":root\{([^}]*--ink[^}]*)\}", STYLE)
)
PAIRS = (
    *(("ink", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("dim", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("link", ground) for ground in ("paper", "soft", "badbg", "warnbg", "goodbg")),
    *(("bad", ground) for ground in ("paper", "badbg")),
    *(("warn", ground) for ground in ("paper", "soft", "warnbg")),
    *(("good", ground) for ground in ("paper", "goodbg")),
    *(("sim", ground) for ground in ("paper", "simbg")),
    ("fullink", "full"),
    ("partink", "part"),
)
"""Text and ground, as they meet on the page."""


@pytest.fixture(scope="module")
def pair(page_of) -> Page:
    return page_of(NEW, OLD)


@pytest.fixture(scope="module")
def seed_page(seed: bytes, page_of) -> Page:
    return page_of(seed.decode())


def test_the_page_holds_known_elements_and_loads_nothing(pair: Page, seed_page: Page) -> None:
    for page in (pair, seed_page):
        assert {tag for tag, _ in page.elements} <= HTML | SVG
        for tag, attributes in page.elements:
            assert not any(
                name.startswith("on") or name in ("style", "src", "srcset", "action") for name in attributes
            )
            assert re.fullmatch(r"#[a-z]+[0-9]*", attributes.get("href") or "#a"), (tag, attributes)


def test_the_policy_allows_this_style_and_this_script_and_nothing_else(seed_page: Page) -> None:
    text = seed_page.source
    policy = unescape(re.findall(r'Content-Security-Policy" content="([^"]*)"', text)[0])
    rules = dict(rule.split(" ", 1) for rule in policy.split("; "))
    for rule, element in (("script-src", "script"), ("style-src", "style")):
        (content,) = re.findall(rf"<{element}>(.*?)</{element}>", text, re.DOTALL)
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert rules.pop(rule) == f"'sha256-{digest}'"
    assert rules == {
        "default-src": "'none'",
        "base-uri": "'none'",
        "form-action": "'none'",
        "require-trusted-types-for": "'script'",
    }
    assert not re.search(r"url\(|@import|https?:|expression\(", STYLE)


def test_every_link_leads_into_the_page_and_no_id_stands_twice(pair: Page) -> None:
    assert len(set(pair.ids)) == len(pair.ids)
    targets = {str(attributes["href"])[1:] for attributes in pair.all("a")}
    assert targets <= set(pair.ids)


def test_every_place_in_the_page_is_a_link_to_its_line(pair: Page) -> None:
    places = re.findall(r'<a class="place" href="#([a-z])(\d+)">([a-z.]+):(\d+)</a>', pair.source)
    assert len(places) > 50
    for prefix, line, name, number in places:
        assert line == number
        assert prefix == {"p.yaml": "n", "old.yaml": "o"}[name]
    told = [data for data, _ in pair.texts if re.search(r"(?:p|old)\.yaml:\d", data)]
    assert len(told) == len(places)


def test_every_limit_is_told_beside_what_it_limits(page_of) -> None:
    page = page_of(
        "agent_configs: {dev: {tools: [{name: run, rate: 10/min}], models: [{name: big, max_tokens: 64}],"
        " network_egress: [{host: a.b.com, limits: {requests: 60/h}}],"
        " secrets_access: [{name: KEY, hosts: [a.b.com], max_uses: 7}], limits: {tokens: 2M/day}}}"
    )
    said = " ".join(data for data, _ in page.texts)
    for words in ("10 calls a minute", "64", "60 requests an hour", "7 requests", "2M tokens a day"):
        assert words in said, words


def test_the_sections_stand_in_the_order_of_a_review(pair: Page, seed_page: Page) -> None:
    order = [
        "what",
        "changes",
        "short",
        "warnings",
        "matrix",
        "secrets",
        "graph",
        "rules",
        "source",
        "reading",
    ]
    assert [name for name in pair.ids if name in order] == order
    assert "changes" not in seed_page.ids
    assert seed_page.text.index("Policy digest (SHA-384)") < seed_page.text.index("In short")


def test_the_page_is_made_for_readers_who_do_not_see_it(pair: Page) -> None:
    assert pair.all("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(pair.all(landmark)) == 1
    levels = [int(tag[1]) for tag, _ in pair.elements if re.fullmatch(r"h[1-6]", tag)]
    assert all(after <= before + 1 for before, after in pairwise(levels))
    assert all(attributes.get("scope") in ("row", "col", "rowgroup") for attributes in pair.all("th"))
    for attributes in pair.all("svg"):
        assert attributes.get("aria-hidden") == "true" or attributes["aria-labelledby"] in pair.ids
    for _, attributes in pair.elements:
        assert attributes.get("aria-labelledby", pair.ids[0]) in pair.ids
    assert pair.source.index('href="#main"') < pair.source.index("<header")


def test_all_of_it_is_there_without_the_script(pair: Page) -> None:
    """Only the filter is hidden, which would do nothing."""
    assert [attributes.get("id") for _, attributes in pair.elements if "hidden" in attributes] == ["filter"]
    assert not pair.all("details")


def test_the_same_files_give_the_same_bytes() -> None:
    pages = {render_review(made_review(NEW, OLD, at="2026-11-22T00:00:00Z")) for _ in range(2)}
    assert len(pages) == 1
    assert "2026-11-22T00:00:00Z" in pages.pop()


def test_what_is_reviewed_is_named_by_its_digests(seed: bytes, seed_page: Page) -> None:
    profiles = policy_file(seed.decode()).profiles
    for digest in (
        profiles.digest,
        profiles.source_digest,
        *(each.digest for each in profiles.profiles.values()),
    ):
        assert digest in seed_page.text
    assert "none: the file names no denials" in seed_page.text
    assert "affiant 0, build none" in seed_page.text


def test_a_floor_has_its_digest_and_its_lines(page_of) -> None:
    from affiant.policy.review.review import review_of

    file = policy_file("floor: floor.yaml\nagent_configs: {a: {tools: [x, y]}}", floor="tools: [{deny: y}]\n")
    page = Page(render_review(review_of(file, builder="b")))
    digest = file.profiles.profile("a").compiled.policy.floor
    assert digest is not None
    assert digest in page.text
    assert '<a class="place" href="#m1">floor.yaml:1</a>' in page.source
    assert "m1" in page.ids


def test_a_file_without_agents_says_that_nobody_may_do_anything(page_of) -> None:
    page = page_of("agent_configs: {}")
    assert "nobody may do anything" in page.text
    page = page_of("agent_configs: {}", OLD)
    assert "this agent has no profile any more" in page.text


def test_a_page_about_some_agents_says_that_others_are_left_out(page_of) -> None:
    page = page_of(NEW, agents=["triage"])
    assert "1 more agents of the file are not on this page" in page.text
    assert "DEPLOY_KEY" not in page.section("short")
    with pytest.raises(Exception, match="no profile of the name 'nobody'"):
        page_of(NEW, agents=["nobody"])


def test_every_warning_has_a_title_and_what_to_do() -> None:
    assert set(TITLES) == set(WARNINGS) == set(ADVICE)


def test_a_warning_without_a_title_is_told_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        warned, "TITLES", {code: title for code, title in TITLES.items() if code != "scheme_http"}
    )
    text = "agent_configs: {a: {network_egress: [{host: x.com, scheme: http}]}}"
    section = Page(render_review(made_review(text))).section("warnings")
    assert "scheme_http" in section
    assert unescape(WARNINGS["scheme_http"][1:]) in unescape(section)


def test_a_warning_says_what_is_wrong_what_to_do_and_where(seed_page: Page) -> None:
    section = unescape(seed_page.section("warnings"))
    for code in ("host_unrestricted", "rw_hooks", "secret_no_sink"):
        assert ADVICE[code] in section
        assert TITLES[code] in section
    assert '<a class="place" href="#n16">p.yaml:16</a>' in section


def test_what_an_unlimited_host_means_is_said_in_these_words(page_of) -> None:
    wide = page_of("agent_configs: {a: {network_egress: allowed:x.com}}")
    assert "it may do anything that host's API allows" in wide.text
    narrow = page_of(
        'agent_configs: {a: {network_egress: [{host: x.com, methods: [GET], paths: ["/v1/**"]}]}}'
    )
    assert "anything that" not in narrow.section("short")


def test_private_data_with_strangers_and_a_way_out_is_told_first(page_of) -> None:
    page = page_of(
        'agent_configs: {a: {filesystem_access: read:/w, network_egress: [{host: "*.zendesk.com"}]}}'
    )
    section = unescape(page.section("warnings"))
    assert section.index("Private data, strangers' words and a way out") < section.index("Hosts by wildcard")
    assert "1 agent that outsiders can steer" in page.text


def test_serious_warnings_come_before_all_others(page_of) -> None:
    page = page_of(
        'agent_configs: {a: {network_egress: [{host: "*.x.com", methods: [GET]}, {host: y.com, tls: passthrough}]}}'
    )
    section = unescape(page.section("warnings"))
    assert section.index("Connections that nobody looks into") < section.index("Hosts by wildcard")
    assert section.rindex(">serious<") < section.index(">warning<")


APPROVERS = ["A" * 43, "b" * 42 + "A"]


def test_who_may_approve_is_told_with_quorum_and_time(page_of) -> None:
    asks = "agent_configs: {{a: {{tools: [x], requires_human_approval: {{everything: true{}}}}}}}"
    page = page_of(asks.format(f", approvers: [{', '.join(APPROVERS)}], quorum: 2, ttl: 5m"))
    section = unescape(page.section("rules"))
    assert all(approver in section for approver in APPROVERS)
    assert "approval: needed for every tool and request; by 2 of" in section
    assert "a request waits 300 s" in section
    nobody = unescape(page_of(asks.format("")).section("rules"))
    assert "no approver is named, so it is denied" in nobody
    silent = unescape(page_of("agent_configs: {a: {tools: [x]}}").section("rules"))
    assert "approve" not in silent.partition("<table")[2]


def test_every_approver_is_named_however_many_and_long_they_are(page_of) -> None:
    issuer = "https://id.example/" + "realm/" * 38
    subjects = [f"{'person' * 8}{at}@{'example' * 8}.org" for at in range(16)]
    named = ", ".join(f"{{issuer: '{issuer}', subject: '{subject}'}}" for subject in subjects)
    root = '{"mediaType": "application/vnd.dev.sigstore.trustedroot+json"}'
    who = f"approvers: [{named}], trusted_root: '{root}'"
    page = page_of(f"agent_configs: {{a: {{requires_human_approval: {{everything: true, {who}}}}}}}")
    section = unescape(page.section("rules"))
    assert [subject for subject in subjects if f"{subject} (issuer {issuer})" not in section] == []


def test_every_group_of_requests_of_a_secret_is_in_its_row(page_of) -> None:
    paths = [f"/v1/projects/a-rather-long-name-of-a-project-{at}" for at in range(20)]
    methods = ["GET", "POST", "PUT", "PATCH", "DELETE"]
    rules = [
        f"{{host: a.com, methods: [{method}], paths: [{', '.join(paths[at::5])}]}}"
        for at, method in enumerate(methods)
    ]
    page = page_of(f"agent_configs: {{a: {{network_egress: [{', '.join(rules)}], secrets_access: [K]}}}}")
    section = unescape(page.section("secrets"))
    assert [path for path in paths if path not in section] == []


def test_each_limit_of_a_rule_is_said_once(page_of) -> None:
    page = page_of("agent_configs: {a: {models: [{name: m, max_tokens: 8k}]}}")
    assert page.section("matrix").count("at most 8k tokens in one request") == 1
    assert page.section("rules").count("max_tokens: 8000") == 1


def test_what_widens_stands_before_what_narrows_with_requests_that_show_it(pair: Page) -> None:
    section = unescape(pair.section("changes"))
    wider, narrower = section.index("More is allowed"), section.index("Less is allowed")
    assert wider < section.index("POST https://api.github.com/repos/acme/") < narrower
    assert "no longer needs approval" in section[wider:narrower]
    assert "READ_TOKEN" in section[wider:narrower]
    assert "this agent has no profile any more" in section[narrower:]
    assert "was" in section[narrower:]
    assert '<a class="place" href="#o' in section[narrower:]


def test_equal_versions_differ_in_nothing(page_of) -> None:
    page = page_of(NEW, NEW)
    assert "No difference in what is allowed." in page.text
    assert 'class="sign"' not in page.section("matrix").partition("<table")[2]


def test_where_a_secret_flows_is_told_with_agent_host_and_requests(pair: Page) -> None:
    section = unescape(pair.section("secrets"))
    assert "READ_TOKEN" in section
    assert "GET, POST /repos/acme/**" in section
    assert "as the whole credential" in section
    assert section.index("Can be sent") < section.index("Granted, and usable nowhere")
    assert "no rule of the profile reaches this host and port" in section[section.index("LOST") :]


def test_a_line_of_the_source_shows_every_value_whose_field_holds_no_secret(page_of) -> None:
    text = "# a comment\nagent_configs:\n  dev:\n    tools: [run]  # why\n    secrets_access: [MY_KEY]\n"
    page = page_of(text)
    lines = re.findall(r'<li id="n\d+"><code>(.*?)</code></li>', page.section("source"))
    assert lines == ["", "agent_configs:", "  dev:", "    tools: [run]  ", "    secrets_access: [MY_KEY]"]


def source_of(page: Page) -> str:
    lines = re.findall(r'<li id="n\d+"><code>(.*?)</code></li>', page.section("source"))
    return unescape("\n".join(lines))


LITERAL = "aB3dE5gH7jK9mN1pQ3rS5tU7"
"""It looks like a value; it is a version that a tool may be called with."""


def test_approvers_and_what_arguments_may_be_are_shown_in_every_section(page_of) -> None:
    key = "NzbLsXh8uDCcd-6MNwXF4W_7noWXFZAfHkxZsRGC9Xs"
    tool = f"{{name: t, args: {{version: {{one_of: [{LITERAL}]}}, file: {{under: /w/{LITERAL}}}}}}}"
    text = f"""\
agent_configs:
  dev:
    tools: [{tool}]
    filesystem_access: read:/w
    network_egress: [{{host: a.com}}]
    secrets_access: [{{name: K, hosts: [a.com], max_uses: 7, inject: {{header: x-k, format: "hunter2 {{}}"}}}}]
    requires_human_approval: {{everything: true, approvers: [{key}]}}
"""
    page = page_of(text, text.replace(f", approvers: [{key}]", ""))
    assert "hunter2" not in page.source
    for section, shown in {
        "changes": [f"approver {key}"],
        "matrix": [LITERAL, "at most 7"],
        "rules": [LITERAL, f"approver: {key}", "max_uses: 7"],
        "source": [key, f"one_of: [{LITERAL}]", f"under: /w/{LITERAL}", "max_uses: 7", "format: ***"],
    }.items():
        found = source_of(page) if section == "source" else unescape(page.section(section))
        assert [each for each in shown if each not in found] == [], section
        assert "***" not in found.replace("format: ***", "").replace('"*** {}"', ""), section


def test_a_long_list_hides_no_argument_of_its_rule(page_of) -> None:
    long = ", ".join(f"value-number-{at}" for at in range(250))
    args = f"a: {{one_of: [{long}]}}, b: {{const: {'x' * 1000}}}, zulu: {{under: /w/last}}"
    page = page_of(f"agent_configs: {{dev: {{tools: [{{name: t, args: {{{args}}}}}]}}}}")
    section = unescape(page.section("rules"))
    assert "zulu: {under: /w/last}" in section
    assert "... and" in section
    assert "value-number-0" in section


def test_a_long_literal_is_cut_in_the_middle(page_of) -> None:
    literal = "begin-" + "x" * 500 + "-end"
    page = page_of(f"agent_configs: {{dev: {{tools: [{{name: t, args: {{a: {{const: {literal}}}}}}}]}}}}")
    assert re.search(r'"begin-x+\u2026x+-end"', unescape(page.section("matrix")))


@pytest.mark.parametrize("colours", [LIGHT, DARK])
def test_text_and_ground_contrast_enough(colours: dict[str, str]) -> None:
    def luminance(colour: str) -> float:
        parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    for text, ground in PAIRS:
        light, dark = sorted((luminance(colours[text]), luminance(colours[ground])), reverse=True)
        assert (light + 0.05) / (dark + 0.05) >= 4.5, (text, ground)


def test_the_style_is_for_screen_dark_rooms_paper_and_still_eyes() -> None:
    for rule in (
        "prefers-color-scheme:dark",
        "@media print",
        "prefers-reduced-motion",
        "@page",
        ":focus-visible",
    ):
        assert rule in STYLE


def test_many_agents_have_letters_in_tables_that_fit_a_page_of_paper() -> None:
    page = Page(render_review(made_review(many(26, rules=10))))
    tables = [attributes for attributes in page.all("table") if "matrix" in str(attributes.get("class"))]
    assert [table["class"] for table in tables] == ["matrix letters"] * 2
    assert "Agents 26 to 26 of 26" in page.text
    assert "only after approval" in page.section("matrix")
    assert "team_0_with_a_long_name_of_agent_20" in page.section("matrix")


def test_a_table_that_is_cut_says_so_and_loses_no_plane(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matrix_tables, "_MAX_ROWS", 2)
    page = Page(render_review(made_review(many(6, rules=20))))
    section = page.section("matrix")
    assert section.count("more are not shown: they are among each agent") == 3
    assert "KEY_0" in section
    assert "KEY_1" in section


@pytest.mark.slow
def test_fifty_agents_with_a_hundred_rules_stay_one_page_of_bounded_tables() -> None:
    page = Page(render_review(made_review(many(50))))
    tables = [attributes for attributes in page.all("table") if "matrix" in str(attributes.get("class"))]
    assert [table["class"] for table in tables] == ["matrix letters"] * 2
    assert "Agents 26 to 50 of 50" in page.text
    assert len(page.all("figure")) == 50
    assert len(page.source) < 4_000_000
