"""A session whose profile is narrowed while it runs: :class:`~story.Story` with two narrowings before its end.

Between the narrowing and the end there is one answer of each epoch. Every fact can be made wrong: by ``alter`` with the
steps ``policy-K`` and ``answer-K``, by ``event`` (the payload that is extended, and its name), by ``quote`` (nonce,
manifest, activation, keyset of the new evidence), by ``order`` (who says what, and when).
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.attestation.story import REQUEST, RESPONSE, Story, link

from affiant.attestation.bundle.bundle import Bundle, objects_by_digest
from affiant.attestation.encoding.binary_text import b64u_sha256, sha256_name
from affiant.attestation.encoding.canonical import canonical
from affiant.attestation.records.receipt import Issued
from affiant.attestation.statements.ear import ear_digest, issue_ear
from affiant.attestation.statements.evidence import Evidence, wrap_evidence
from affiant.attestation.statements.manifest import mrconfigid, session_events
from affiant.attestation.statements.restriction import Narrowing
from affiant.attestation.statements.statement import report_data
from affiant.attestation.tdx.event_log.eventlog import Event


def normal_form(number: int) -> bytes:
    """A profile that is another one for each number."""
    return canonical({"semantics": "affiant.policy/1", "tools": [], "number": number})


def digest_of(policy: bytes) -> str:
    return "sha384:" + hashlib.sha384(b"affiant.policy/1\n" + policy).hexdigest()


def same(_epoch: int, event: Event) -> tuple[Event, ...]:
    return (event,)


def as_it_is(_epoch: int, statement: dict[str, object], parts: dict[str, bytes]) -> dict[str, bytes]:
    return parts


@dataclass
class NarrowedStory(Story):
    count: int = 2
    event: Callable[[int, Event], tuple[Event, ...]] = same
    """Epoch and event -> what is extended in its place."""
    quote: Callable[[int, dict[str, object], dict[str, bytes]], dict[str, bytes]] = as_it_is
    """Epoch, the statement's members (to change) -> the evidence's other parts."""
    form: Callable[[int], bytes] = normal_form
    """Epoch -> the profile's normal form."""
    steps: tuple[str, ...] = ("narrow", "policy", "answer")
    """Of each narrowing, in order."""
    evidences: list[bytes] = field(default_factory=list)
    ears: list[str] = field(default_factory=list)
    narrowings: list[Narrowing] = field(default_factory=list)
    extended: list[Event] = field(default_factory=list)
    policies: list[bytes] = field(default_factory=list)

    # -- what is in force ---------------------------------------------------------------------------------------

    def _pol(self, decision: str = "allow", epoch: int | None = None) -> dict[str, object]:
        number = len(self.narrowings) if epoch is None else epoch
        if number == 0:
            return super()._pol(decision)
        last = self.narrowings[number - 1]
        return {
            "dec": decision,
            "dig": last.profile_digest,
            "fil": last.file_digest,
            "bind": "rtmr3",
            "epoch": number,
        }

    def make_session(self) -> None:
        super().make_session()
        self.evidences.append(self.session_evidence)
        self.ears.append(self.ear)

    def by_supervisor(self, step: str, kind: str, members, hidden=None, **more) -> Issued:
        if step == "session-end":
            for number in range(1, self.count + 1):
                for name in self.steps:
                    getattr(self, f"_{name}")(number)
            members["cseq"] = 1 + self.count * self.steps.count("answer")
        return super().by_supervisor(step, kind, members, hidden, **more)

    # -- one narrowing ------------------------------------------------------------------------------------------

    def _narrow(self, number: int) -> None:
        """The TD extends its register and is quoted again; the gateway appraises that and goes on with the profile."""
        policy = self.form(number)
        old = digest_of(self.policies[-1]) if self.policies else self.policy_digest
        narrowing = Narrowing(number, digest_of(policy), sha256_name(b"profiles.yaml %d" % number), old=old)
        self.policies.append(policy)
        self.narrowings.append(narrowing)
        self.extended += self.event(number, narrowing.event)
        statement = json.loads(self.session_statement.raw) | {"nonce": link(f"nonce {number}")}
        parts = {"manifest": self.manifest.raw, "activation": self.activation.raw}
        parts = self.quote(number, statement, parts)
        raw = canonical(statement)
        boot = [Event(name, payload) for name, payload in session_events(self.manifest, self.activation)]
        config = parts.get("mrconfigid", mrconfigid(self.manifest))
        quote, log = self._quote(
            "session", config, report_data(raw), [*boot, *self.extended], self.session_mrtd
        )
        self.session_evidence = wrap_evidence(
            Evidence(quote, log, parts.get("statement", raw), parts["manifest"], parts["activation"])
        )
        self.evidences.append(self.session_evidence)
        self.supervisor.evd = b64u_sha256(self.session_evidence)
        members = {
            "iss": self.config.iss,
            "build": sha256_name(b"release manifest"),
            "peer": "session",
            "tier": "none",
            "vector": {"instance-identity": 0},
            "policy": self.config.reference,
            "evd": self.supervisor.evd,
            "col": self.col,
            "cls": self.cls,
            "tcb_status": "UpToDate",
            "until": self.clock.now.replace(year=2027),
            "now": self.clock.now,
        }
        self.ears.append(issue_ear(self.ear_signer, **self.alter(f"ear-{number}", members)))

    def _policy(self, number: int) -> None:
        """The supervisor's record of it."""
        members = {
            "pol": self._pol(),
            "old": self.narrowings[number - 1].old,
            "dif": sha256_name(b"what is different"),
        }
        self.by_supervisor(f"policy-{number}", "policy", members)

    def _answer(self, number: int, *, step: str = "answer") -> None:
        """One answer of the gateway's, under the new profile."""
        self.by_gateway(
            f"{step}-{number}",
            "inference",
            {
                "req": {"m": "POST", "p": "/v1/chat/completions"},
                "res": {"st": 200, "end": "complete"},
                "mdl": {"id": "affiant-dev-echo"},
                "use": {},
                "pol": self._pol(),
                "up": [
                    {
                        "id": "affiant-dev-echo",
                        "host": "affiant-dev-echo.internal",
                        "bind": "none",
                        "res": "ok",
                    }
                ],
                "att": {"ses": {"ear": ear_digest(self.ears[-1]), "tier": "none"}},
            },
            {
                "req": {"dig": sha256_name(REQUEST), "fwd": sha256_name(REQUEST), "len": len(REQUEST)},
                "res": {"dig": sha256_name(RESPONSE), "len": len(RESPONSE)},
            },
            cseq=1 + number,
        )

    def bundle(self) -> Bundle:
        made = super().bundle()
        return replace(
            made,
            evidence=objects_by_digest([self.gateway_evidence, *self.evidences]),
            results=objects_by_digest([ear.encode() for ear in self.ears]),
            policies=objects_by_digest([self.policy, *self.policies, self.config.raw, self.reference]),
        )
