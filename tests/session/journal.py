"""What a state folder proves after the fact: its journal, each record verified and opened as its starter can."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.gateway.journal_reader import entries_of, opens_of, statement_of

from affiant.attestation.records.receipt import VerifiedReceipt, parse_receipt, verify_receipt
from affiant.attestation.records.sealed_disclosures import DisclosureReader
from affiant.attestation.statements.statement import parse_statement
from affiant.gateway.store.entries import Entry, OpeningEntry, PeerEntry, RecordEntry
from affiant.sandbox.processes.home import open_home


@dataclass(frozen=True)
class Boot:
    """One life of the gateway: every record verifies under the keyset of this very boot."""

    records: tuple[VerifiedReceipt, ...]
    opens: frozenset[str]
    """Requests that were admitted and have no record."""
    peers: tuple[str, ...]
    """The session chains' records that were acknowledged, as JWS."""

    @property
    def ended(self) -> bool:
        """Whether its chain was ended by its own signer."""
        return bool(self.records) and self.records[-1].kind == "end"

    def answers(self) -> Mapping[str, VerifiedReceipt]:
        """Inference records by the digest of what the client was handed."""
        found = (r for r in self.records if r.kind == "inference")
        return {digest: r for r in found if (digest := r.disclosed.text("res.dig")) is not None}


def boots_of(home: Path) -> list[Boot]:
    """Every boot of the folder's gateway, oldest first.

    Raises:
        AffiantError: a record does not verify under its own boot's keyset, or an opening does not open.
    """
    return [_boot(home, entries) for entries in entries_of(home / "gateway")]


def _boot(home: Path, entries: list[Entry]) -> Boot:
    statement = parse_statement(statement_of(entries))
    reader = DisclosureReader(open_home(home).openings_key(random_bytes=os.urandom))
    sealed = {entry.rh: entry.sealed for entry in entries if isinstance(entry, OpeningEntry)}
    records = []
    for entry in entries:
        if isinstance(entry, RecordEntry):
            opened = reader.open(entry.jws, sealed.get) or ()
            records.append(verify_receipt(parse_receipt("~".join([entry.jws, *opened, ""])), statement))
    peers = tuple(entry.jws for entry in entries if isinstance(entry, PeerEntry))
    return Boot(tuple(records), frozenset(opens_of(entries)), peers)


def assert_chains_hold(boots: list[Boot]) -> None:
    """Each boot signs its own chain only; what one left open, the next one discloses once, and nobody signs."""
    for before, boot in zip([None, *boots], boots, strict=False):
        assert len({r.chn for r in boot.records}) <= 1
        assert [r.seq for r in boot.records] == list(range(len(boot.records)))
        gaps = [r for r in boot.records if r.kind == "gap"]
        if before is None or before.ended or not before.records:
            assert gaps == []
            continue
        (gap,) = gaps
        last = before.records[-1]
        assert gap.member("lst") == {"chn": last.chn, "seq": last.seq, "rh": last.rh}
        assert gap.member("ext", "tag:affiant.dev,2026:gap/opens") == str(len(before.opens))
    jtis = [r.jti for boot in boots for r in boot.records]
    assert len(jtis) == len(set(jtis))
    assert not {jti for boot in boots for jti in boot.opens} & set(jtis), "an open of a dead boot was signed"


def session_record_ids(home: Path) -> frozenset[str]:
    """Ids of the records that sessions signed: those the gateway has, and those still in a session's own file."""
    texts = [jws for boot in boots_of(home) for jws in boot.peers]
    for spool in home.glob("sessions/*/records.ndjson"):
        whole = spool.read_bytes().split(b"\n")[:-1]
        texts += [text for line in whole if (text := json.loads(line).get("jws")) is not None]
    return frozenset(json.loads(parse_receipt(text + "~").split.payload)["jti"] for text in texts)
