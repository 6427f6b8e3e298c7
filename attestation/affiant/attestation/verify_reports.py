"""The files that ``affiant verify`` writes beside what it prints: each whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import click

from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.attestation.verifier.verdict import Verdict
from affiant.files import is_stream, write_whole

__all__ = ["Reports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Where which report goes; None: it was not asked for."""

    html: Path | None = None
    sarif: Path | None = None
    junit: Path | None = None

    def keep_apart(self, inputs: Iterable[Path]) -> None:
        """Refuse a report in place of what is read, or of another report: a bundle may be the only copy.

        Raises:
            click.UsageError: one of them is.
        """
        given = [
            each for each in (self.html, self.sarif, self.junit) if each is not None and not is_stream(each)
        ]
        read = {each.resolve() for each in inputs}
        for place in given:
            if place.resolve() in read:
                raise click.UsageError(f"{place} is read: a report would replace it. Name another file.")
        if len({each.resolve() for each in given}) != len(given):
            raise click.UsageError("two reports at one place: the second would replace the first")

    def write(self, verdict: Verdict, *, bundle: str) -> None:
        """Those of one bundle.

        Raises:
            click.UsageError: one cannot be written.
        """
        from affiant.attestation.verifier.report_html import render_html  # noqa: PLC0415 - only if asked
        from affiant.attestation.verifier.report_machine import render_junit, render_sarif  # noqa: PLC0415 - as above

        _write(self.html, lambda: render_html(verdict))
        _write(self.sarif, lambda: render_sarif(verdict, bundle=bundle))
        _write(self.junit, lambda: render_junit(verdict))

    def write_several(self, verdict: CombinedVerdict) -> None:
        """Those of several bundles; as :meth:`write`."""
        from affiant.attestation.verifier.report_html_several import render_html_several  # noqa: PLC0415 - as above
        from affiant.attestation.verifier.report_machine import render_junit_several, render_sarif_several  # noqa: PLC0415 - as above

        _write(self.html, lambda: render_html_several(verdict))
        _write(self.sarif, lambda: render_sarif_several(verdict))
        _write(self.junit, lambda: render_junit_several(verdict))


def _write(path: Path | None, render_report: Callable[[], str]) -> None:
    """A report that was cut off would say less than the verdict; what is no file is written to, never replaced."""
    if path is None:
        return
    report = render_report().encode("utf-8")
    try:
        if is_stream(path):
            path.write_bytes(report)
        else:
            write_whole(path, report)
    except OSError as error:
        raise click.UsageError(f"{path} cannot be written: {error.strerror}") from error
