"""The files that ``affiant verify`` writes beside what it prints: each whole, or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from affiant.attestation.verdict.verdict import Verdict
from affiant.attestation.verifier.combined import CombinedVerdict
from affiant.report_files import keep_apart, write_report

if TYPE_CHECKING:
    from affiant.attestation.signatures.profiles.private_keys import SigningKey

__all__ = ["Reports"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Reports:
    """Where which report goes; None: it was not asked for."""

    html: Path | None = None
    sarif: Path | None = None
    junit: Path | None = None
    csv: Path | None = None
    signed: Path | None = None
    signer: SigningKey | None = None
    """Whose signature the signed verdict has; it is there wherever that is asked for."""

    def keep_apart(self, inputs: Iterable[Path]) -> None:
        """Refuse a report in place of what is read, or of another report: a bundle may be the only copy.

        Raises:
            click.UsageError: one of them is.
        """
        keep_apart((self.html, self.sarif, self.junit, self.csv, self.signed), inputs=inputs)

    def write(self, verdict: Verdict, *, bundle: str) -> None:
        """Those of one bundle.

        Raises:
            click.ClickException: one cannot be written.
        """
        from affiant.attestation.verdict.signed_verdict import sign_verdict  # noqa: PLC0415 - only if asked
        from affiant.attestation.verifier.report.html import render_html  # noqa: PLC0415 - as above
        from affiant.attestation.verifier.report.machine import render_junit, render_sarif  # noqa: PLC0415 - as above

        _write(self.html, lambda: render_html(verdict))
        _write(self.sarif, lambda: render_sarif(verdict, bundle=bundle))
        _write(self.junit, lambda: render_junit(verdict))
        self._write_rows([(bundle, verdict)])
        if self.signer is not None:
            signed = sign_verdict(verdict.to_json(), self.signer)
            _write(self.signed, lambda: signed.decode("ascii"))

    def write_several(self, verdict: CombinedVerdict) -> None:
        """Those of several bundles; as :meth:`write`."""
        from affiant.attestation.verifier.report.html import render_html_several  # noqa: PLC0415 - as above
        from affiant.attestation.verifier.report.machine import render_junit_several, render_sarif_several  # noqa: PLC0415 - as above

        _write(self.html, lambda: render_html_several(verdict))
        _write(self.sarif, lambda: render_sarif_several(verdict))
        _write(self.junit, lambda: render_junit_several(verdict))
        self._write_rows([(each.file, each.verdict) for each in verdict.judged])

    def _write_rows(self, judged: Sequence[tuple[str, Verdict]]) -> None:
        from affiant.attestation.verifier.report.timeline_csv import timeline_csv  # noqa: PLC0415 - as above

        _write(self.csv, lambda: timeline_csv(judged))


def _write(path: Path | None, render_report: Callable[[], str]) -> None:
    if path is not None:
        write_report(path, render_report())
