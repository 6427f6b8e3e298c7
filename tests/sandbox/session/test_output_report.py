"""What a person is told about what was copied out."""

from __future__ import annotations

from affiant.sandbox.session.output_report import counted, skipped_lines
from affiant.sandbox.workspace.tree import Changes, Skipped


def changes(count: int = 1, path: str = "p") -> Changes:
    skipped = tuple(Skipped(f"{path}{n}", "workspace.special_file") for n in range(count))
    return Changes(added=("a", "b"), changed=(), removed=("r",), skipped=skipped, folders=("empty",))


def test_every_kind_is_counted():
    assert counted(changes()) == "2 added, 0 changed, 1 removed, 1 new folder, 1 skipped"


def test_each_skipped_entry_is_a_line_with_its_reason():
    assert skipped_lines(changes(2), rest="see --json") == (
        "not copied: p0: a device, pipe or socket",
        "not copied: p1: a device, pipe or socket",
    )


def test_of_many_the_rest_is_a_number():
    lines = skipped_lines(changes(25), rest="see --json")
    assert len(lines) == 21
    assert lines[-1] == "and 5 more were not copied: see --json"


def test_a_hostile_name_is_shown_escaped():
    assert all(line.isprintable() for line in skipped_lines(changes(path="\x1b[2J\u202e"), rest=""))
