"""Reports are written whole, and never over what is read."""

from __future__ import annotations

from pathlib import Path

import click
import pytest

from affiant.report_files import keep_apart, write_report


def test_two_reports_at_one_place_are_refused(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "out")
    keep_apart([tmp_path / "out", None], inputs=[tmp_path / "in"])
    with pytest.raises(click.UsageError, match="two reports"):
        keep_apart([tmp_path / "out", tmp_path / "link"], inputs=[])


def test_what_is_read_is_never_replaced_and_a_device_may_be_both(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "in")
    with pytest.raises(click.UsageError, match="is read"):
        keep_apart([tmp_path / "link"], inputs=[tmp_path / "in"])
    keep_apart([Path("/dev/null"), Path("/dev/null")], inputs=[Path("/dev/null")])


def test_a_report_that_may_replace_nothing_is_refused_where_a_file_is(tmp_path: Path) -> None:
    write_report(tmp_path / "out", "first", replace=False)
    with pytest.raises(click.UsageError, match="cannot be written: File exists"):
        write_report(tmp_path / "out", "second", replace=False)
    assert (tmp_path / "out").read_text() == "first"
    write_report(Path("/dev/null"), "text", replace=False)


def test_a_missing_folder_is_a_wrong_command_line_and_a_full_disk_is_not(tmp_path: Path) -> None:
    with pytest.raises(click.UsageError, match="cannot be written: No such file"):
        write_report(tmp_path / "none" / "out", "text")
    with pytest.raises(click.ClickException, match="cannot be written: No space left") as full:
        write_report(Path("/dev/full"), "text")
    assert full.value.exit_code == 1


def test_a_dash_is_no_place_for_a_report(tmp_path: Path) -> None:
    """Standard output holds what is printed; a file of that name would be found by nobody."""
    with pytest.raises(click.UsageError, match="written to a file"):
        keep_apart([None, Path("-")], inputs=[tmp_path / "in"])
