"""A gateway, its sessions and their records: signed, chained, logged and bundled, with the faults of one case.

Every random byte follows from a label (the signer and the step), so that two stories differ only where their facts do.
"""

from __future__ import annotations

import copy
import hashlib
from collections.abc import Mapping
from typing import Any

from vectors.making import documents as docs
from vectors.making import tree
from vectors.making.encoding import b64u, canonical, from_b64u, link, sha256_name
from vectors.making.faults import Faults
from vectors.making.keys import ed25519_key, p256_key, seeded, thumbprint
from vectors.making.platform import Body, Platform, replay
from vectors.making.records import Members, Party, Record, Session, compact, disclosure, fixed_header
from vectors.making.table import LEAF, OF_SESSION, PROFILES, objects_with_digests

__all__ = ["Story"]


class Story:
    """One gateway and its sessions. Scripts call :meth:`gateway_says` and :meth:`supervisor_says` in order."""

    def __init__(self, faults: Mapping[str, Any] | None = None, *, platform: Platform | None = None) -> None:
        self.faults = Faults(faults)
        self.platform = platform or Platform()
        self.now = docs.START
        self.records: list[Record] = []
        self.sessions: dict[str, Session] = {}
        self.parties: list[Party] = []
        self.policies: list[bytes] = [docs.POLICY]
        self.endorsements = [docs.endorsements(self.platform.collateral())]
        self.results: list[str] = []
        self.checkpoints: list[bytes] = []
        self.stamps: list[Members] = []
        self._documents()
        self.gateway = self.new_gateway("gateway")

    # -- parties -----------------------------------------------------------------------------------------------

    def _document(self, name: str, members: Members) -> tuple[Members, bytes]:
        members = self.faults.through(f"document:{name}", members)
        return members, self.faults.through(f"raw:{name}", canonical(members))

    def _documents(self) -> None:
        cls = self.faults.through("cls", "simulated")
        self.cls = cls
        _, self.reference = self._document("reference", docs.reference_values(self.platform))
        config = docs.configuration(self.reference) | {"cls": cls}
        self.config, self.config_raw = self._document("config", config)
        self.policies += [self.config_raw, self.reference]

    @property
    def col(self) -> str:
        """Digest of the collateral in force."""
        return link(self.endorsements[0])

    def quoted(
        self, role: str, label: str, mrconfigid: bytes, events: list[Members], raw: bytes
    ) -> dict[str, bytes]:
        """Quote and event log over a statement."""
        boot = docs.boot_events(role)
        events = self.faults.through(f"events:{label}", [*boot, *events])
        body = Body(
            mrconfigid=mrconfigid,
            rtmrs=[replay(events, number) for number in range(4)],
            report_data=hashlib.sha512(b"affiant/keyset/1\n" + raw).digest(),
        )
        body = self.faults.through(f"body:{label}", body)
        logged = self.faults.through(f"eventlog:{label}", copy.deepcopy(events))
        platform = self.faults.through(f"platform:{label}", self.platform)
        quote = self.faults.through(f"quote:{label}", platform.quote(body))
        log = canonical({"typ": "affiant-eventlog/1", "events": logged})
        return {"quote": quote, "eventlog": log, "statement": raw}

    def new_gateway(self, label: str) -> Party:
        """A gateway process: its keyset and its evidence."""
        members = docs.gateway_statement(label, self.config_raw) | {"cls": self.cls}
        statement, raw = self._document(f"{label}-statement", members)
        parts = self.quoted("gateway", label, hashlib.sha384(self.config_raw).digest(), [], raw)
        evidence = self.faults.through(f"evidence:{label}", docs.evidence(parts))
        key = p256_key(f"{label} receipt")
        party = Party(label, "gateway", key, statement, raw, evidence)
        self.parties.append(party)
        return party

    def new_session(self, label: str = "session") -> Session:
        """A session TD and the gateway's result about it."""
        ses = docs.identifier(f"{label} id")
        plain = docs.manifest(self.config_raw, self.reference)
        plain["cls"] = plain["gateway"]["cls"] = self.cls
        plain["profile"]["dig"] = docs.profile_digest(self.policies[0])
        man, man_raw = self._document(f"{label}-manifest", plain)
        act, act_raw = self._document(f"{label}-activation", docs.activation(label, ses))
        gks = self.gateway.keyset_digest
        members = docs.session_statement(label, ses, man_raw, act_raw, gks) | {"cls": self.cls}
        statement, raw = self._document(f"{label}-statement", members)
        bound = hashlib.sha384(docs.initdata(man_raw)).digest()
        parts = self.quoted("session", label, bound, docs.session_events(man, man_raw, act_raw), raw)
        parts |= {"manifest": man_raw, "activation": act_raw}
        evidence = self.faults.through(f"evidence:{label}", docs.evidence(parts))
        supervisor = Party(label, "session", p256_key(f"{label} key"), statement, raw, evidence)
        self.parties.append(supervisor)
        text = self.issue_ear(f"{label}-ear", supervisor)
        session = Session(label, ses, supervisor, man, man_raw, act, act_raw, text)
        self.sessions[label] = session
        return session

    def issue_ear(self, name: str, supervisor: Party) -> str:
        """An attestation result, by the gateway's key for results."""
        payload = docs.ear(reference=self.reference, evd=supervisor.evd, col=self.col)
        payload["submods"]["session"][docs.EAR_EXTENSION]["cls"] = self.cls
        _, raw = self._document(name, payload)
        key = self.faults.through(f"key:{name}", p256_key(f"{self.gateway.label} ear"))
        header = self.faults.through(f"header:{name}", fixed_header("affiant-ear+jwt", thumbprint(key)))
        text = compact(key, header, raw)
        self.results.append(text)
        return text

    # -- records -----------------------------------------------------------------------------------------------

    def issue(
        self, party: Party, step: str, kind: str, members: Members, hidden: Mapping[str, Members]
    ) -> Record | None:
        """Sign one record; None where the case leaves it out."""
        if self.faults.has(f"skip:{step}"):
            return None
        self.now = self.faults.through(f"time:{step}", self.now + 1)
        last = party.records[-1] if party.records else None
        payload = {
            "eat_profile": PROFILES[party.statement["cls"]],
            "iss": party.statement["iss"],
            "jti": docs.identifier(f"{party.label} {step} jti"),
            "iat": self.now,
            "kind": kind,
            "cls": party.statement["cls"],
            "role": party.role,
            "chn": party.statement["chn"][0],
            "seq": 0 if last is None else last.payload["seq"] + 1,
            "prev": party.keyset_digest if last is None else last.rh,
            "evd": party.evd,
            **copy.deepcopy(members),
        }
        payload = self.faults.through(f"members:{step}", payload)
        opened = self.faults.through(
            f"hidden:{step}", {path: dict(values) for path, values in hidden.items()}
        )
        disclosures = self._conceal(f"{party.label} {step}", payload, opened)
        disclosures = self.faults.through(f"disclosed:{step}", disclosures)
        payload = self.faults.through(f"payload:{step}", payload)
        body = self.faults.through(f"bytes:{step}", canonical(payload))
        key = self.faults.through(f"key:{step}", party.key)
        header = self.faults.through(f"header:{step}", fixed_header("eat+jwt", thumbprint(key)))
        jws = self.faults.through(f"jws:{step}", compact(key, header, body))
        record = Record(step, party, payload, jws, disclosures, self.faults.has(f"withhold:{step}"))
        party.records.append(record)
        self.records.append(record)
        return record

    def _conceal(self, label: str, payload: Members, hidden: Mapping[str, Members]) -> list[str]:
        """Digests and decoys in place; the disclosures, in the order of the objects."""
        if payload["kind"] in OF_SESSION or objects_with_digests(payload):
            payload.setdefault("_sd_alg", "sha-256")
        disclosures: list[str] = []
        for path, node, count in objects_with_digests(payload):
            if path == "tsk":
                continue  # the starter's digests, as the activation has them
            values = hidden.get(path, {})
            texts = [disclosure(f"{label} {path}.{name}", name, value) for name, value in values.items()]
            decoys = [link(seeded(f"{label} {path} decoy {n}", 32)) for n in range(count - len(texts))]
            node["_sd"] = sorted([*(link(text.encode("ascii")) for text in texts), *decoys])
            disclosures += texts
        return disclosures

    def gateway_says(
        self,
        step: str,
        kind: str,
        members: Members,
        hidden: Mapping[str, Members] | None = None,
        *,
        of: Session | None = None,
        cseq: int | None = None,
    ) -> Record | None:
        """A record of the gateway, of a session or its own."""
        if of is not None and not self.faults.has(f"skip:{step}"):
            more = {"seq": of.numbered} | ({} if cseq is None else {"cseq": cseq})
            members = members | {"agt": self.agent(of) | more}
            if of.supervisor.records and kind != "session-start":
                members["peer"] = of.supervisor.records[-1].head
            of.numbered += 1
        record = self.issue(self.gateway, step, kind, members, hidden or {})
        if of is not None and record is not None:
            of.gateway_records.append(record)
        return record

    def supervisor_says(
        self,
        of: Session,
        step: str,
        kind: str,
        members: Members,
        hidden: Mapping[str, Members] | None = None,
        *,
        cseq: int | None = None,
    ) -> Record | None:
        """A record of a session's supervisor."""
        if kind in OF_SESSION:
            more = {} if cseq is None else {"cseq": cseq}
            members = members | {"agt": self.agent(of) | more, "peer": self.gateway.records[-1].head}
        return self.issue(of.supervisor, step, kind, members, hidden or {})

    def agent(self, of: Session) -> Members:
        """``agt``."""
        return {
            "ses": of.id,
            "evd": of.supervisor.evd,
            "key": thumbprint(of.supervisor.key),
            "bind": "pop",
            "iso": of.activation["iso"],
        }

    def policy(self, of: Session, decision: str = "allow") -> Members:
        """``pol``."""
        bind = "mrconfigid" if of.epoch == 0 else "rtmr3"
        return {"dec": decision, **(of.profile or of.manifest["profile"]), "bind": bind, "epoch": of.epoch}

    def rests_on(self, of: Session) -> Members:
        """``att``."""
        return {"ses": {"ear": link(of.ear.encode("ascii")), "tier": "none"}}

    def before(self, step: str) -> None:
        """Where a case inserts records of its own."""
        self.faults.through(f"before:{step}", self)

    # -- log and bundle ----------------------------------------------------------------------------------------

    def leaves(self) -> list[bytes]:
        """One leaf hash for each record, in the order in which they were signed."""
        hashes = []
        for record in self.records:
            claims, rh = record.payload, hashlib.sha256(record.jws.encode("utf-8", "surrogatepass")).digest()
            code = LEAF.get(claims["kind"], 0)
            fields = (code, from_b64u(claims["chn"])[:16], claims["seq"], claims["iat"], rh)
            fields = self.faults.through(f"leaf:{record.step}", fields)
            hashes.append(tree.leaf_hash(tree.leaf(*fields)))
        return self.faults.through("leaves", hashes)  # type: ignore[no-any-return]

    def proofs(self) -> dict[str, str]:
        """Receipt hash -> proof of inclusion, all under one checkpoint."""
        hashes = self.leaves()
        size, root = self.faults.through("tree", (len(hashes), tree.root(hashes)))
        origin = self.faults.through("origin", docs.ORIGIN)
        text = self.faults.through("checkpoint", tree.checkpoint(origin, size, root))
        signed = self.faults.through("note", tree.note(text, docs.ORIGIN, ed25519_key("log")))
        proofs = {
            record.rh: tree.proof(index, tree.path(hashes, index), signed)
            for index, record in enumerate(self.records)
        }
        return {
            record.rh: self.faults.through(f"proof:{record.step}", proofs[record.rh])
            for record in self.records
        }

    def bundle(self, *, logged: bool = True, disclosed: bool = True) -> Members:
        """The bundle as a JSON value."""
        proofs = self.proofs() if logged else {}
        by_signer = sorted(self.records, key=lambda record: self.parties.index(record.party))
        receipts = [
            {
                "sdjwt": self.faults.through(
                    f"sent:{record.step}", record.text if disclosed else record.jws + "~"
                ),
                "proof": proofs.get(record.rh),
            }
            for record in by_signer
            if not record.withheld
        ]
        present = [party for party in self.parties if not self.faults.has(f"absent:{party.label}")]
        value: Members = {
            "typ": "application/vnd.affiant.bundle.v1+json",
            "receipts": self.faults.through("receipts", receipts),
            "keysets": _named([party.raw for party in present]),
            "evidence": _named([raw for party in present for raw in (*party.earlier, party.evidence)]),
            "endorsements": _named(self.endorsements),
            "results": _named([text.encode("ascii") for text in self.results]),
            "policies": _named(self.policies),
            "checkpoints": _named(self.checkpoints),
            "anchors": {"sigstore": [], "tsr": self.stamps},
        }
        value = self.faults.through("bundle", value)
        if unmet := self.faults.unmet():
            raise ValueError(f"faults that nothing came through: {unmet}")
        return value


def _named(objects: list[bytes]) -> dict[str, str]:
    return {sha256_name(data): b64u(data) for data in objects}
