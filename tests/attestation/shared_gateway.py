"""Sessions of one gateway, one after the other in one log, and a bundle of each: what an auditor collects over time."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field

from tests.attestation.story import Story

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.records.receipt import Issued
from affiant.attestation.tlog.checkpoint import Checkpoint
from affiant.attestation.tlog.note import signed
from affiant.attestation.tlog.proof import LogProof
from affiant.attestation.tlog.tree_paths import MemoryNodes, inclusion_path, range_hash


def leaves_of(records: list[Issued]) -> MemoryNodes:
    from tests.attestation.story import leaf_of

    return MemoryNodes(leaf_of(record.jws).leaf_hash for record in records)


@dataclass
class SharedGateway(Story):
    """Tell it several times: each time one more session. ``log`` is every record in the order of the log."""

    log: list[Issued] = field(default_factory=list)

    def make_gateway(self) -> None:
        if not self.gateway_records:
            super().make_gateway()

    def make_session(self) -> None:
        if self.session_records:
            self.session = self._id()
            self.session_records = []
        super().make_session()

    def by_gateway(self, step, kind, members, hidden=None, **more):
        if step == "gateway-boot" and self.gateway_records:
            return self.gateway_records[0]
        issued = super().by_gateway(step, kind, members, hidden, **more)
        self.log.append(issued)
        return issued

    def by_supervisor(self, step, kind, members, hidden=None, **more):
        issued = super().by_supervisor(step, kind, members, hidden, **more)
        self.log.append(issued)
        return issued

    def bundle(self) -> Bundle:
        """Of the session that was told last: the boot record, and what the gateway and its supervisor signed of it."""
        records = [self.gateway_records[0], *self.of_session(), *self.session_records]
        return Bundle(
            receipts=tuple(record.sdjwt for record in records),
            keysets=objects_by_digest([self.gateway_statement.raw, self.session_statement.raw]),
            evidence=objects_by_digest([self.gateway_evidence, self.session_evidence]),
            endorsements=objects_by_digest([self.endorsements]),
            results=objects_by_digest([self.ear.encode()]),
            policies=objects_by_digest([self.policy, self.config.raw, self.reference]),
            proofs=self.proofs_of(records),
        )

    def proofs_of(self, records: list[Issued]) -> Mapping[str, str]:
        """Proofs in the log as it is now."""
        nodes, size = leaves_of(self.log), len(self.log)
        note = signed(
            Checkpoint(self.config.origin, size, range_hash(nodes, 0, size)).to_text(), self.log_signer
        )
        places = {record.rh: index for index, record in enumerate(self.log)}
        return {
            record.rh: LogProof(places[record.rh], inclusion_path(nodes, places[record.rh], size), note)
            .to_bytes()
            .decode()
            for record in records
        }


def two_sessions(**changes: object) -> tuple[bytes, bytes]:
    """The bundles of two sessions of one gateway, the second made when the log was larger."""
    shared = SharedGateway(**changes)
    first = shared.tell().bytes()
    return first, shared.tell().bytes()


def twice(story: type[Story], **changes: object) -> tuple[bytes, bytes]:
    """Two histories under the same keys: the second differs by ``changes``, each by itself whole and signed."""
    one, other = (random.Random(7) for _ in range(2))
    return story(random_bytes=one.randbytes).bytes(), story(random_bytes=other.randbytes, **changes).bytes()
