"""The supervisor goes on only with the gateway's own record of this very admission."""

from __future__ import annotations

import asyncio
import json
import random
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.attestation.story import Story, link
from tests.raising import raises_code

from affiant.attestation.encoding.binary_text import b64u_sha256
from affiant.attestation.records.task_label import make_task_label
from affiant.sandbox.supervisor.gateway.admission import Granted, admit

LABEL = make_task_label({"task": "summarise"}, random_bytes=random.Random(1).randbytes)
OTHER = make_task_label({"task": "another"}, random_bytes=random.Random(2).randbytes)


def admitted(*, labelled: bool = True, ends: object = 60, **changes: Any) -> tuple[Story, Granted]:
    """What the supervisor makes of an admission whose start record has ``changes``; ``a__b`` reaches into ``a``."""

    def alter(step: str, members: dict[str, Any]) -> dict[str, Any]:
        for path, value in changes.items() if step == "start" else ():
            outer, _, inner = path.partition("__")
            members[outer] = {**members[outer], inner: value} if inner else value
        return {name: value for name, value in members.items() if value is not ...}

    story = Story(alter=alter, task=LABEL if labelled else None).tell()
    start = next(record for record in story.gateway_records if record.payload["kind"] == "session-start")
    keyset = story.gateway_statement.keyset_digest
    answer = {"session": story.session, "start": f"{start.jws}~", "ksd": keyset}
    begun = start.payload["iat"]
    answer["expires"] = begun + ends if isinstance(ends, int) else ends

    async def post(*_: object, **__: object) -> tuple[object, bytes]:
        return SimpleNamespace(status=201), json.dumps(answer).encode()

    given: Mapping[str, Any] = {
        "client": SimpleNamespace(post=post),
        "launch": SimpleNamespace(
            activation=story.activation,
            manifest=story.manifest,
            policy=SimpleNamespace(normal_form=story.policy),
            signature=None,
        ),
        "identity": SimpleNamespace(
            evidence=story.session_evidence,
            evd=b64u_sha256(story.session_evidence),
            statement=story.session_statement,
            signer=story.session_signer,
        ),
        "gateway": SimpleNamespace(keyset_digest=keyset, statement=story.gateway_statement),
    }
    return story, asyncio.run(admit(**cast("Any", given)))


@pytest.mark.parametrize("labelled", [True, False])
def test_an_admission_in_order_gives_the_gateways_head(labelled: bool) -> None:
    story, (head, _) = admitted(labelled=labelled)
    start = story.gateway_records[1]
    assert (head.seq, head.rh) == (start.payload["seq"], start.rh)


def test_a_session_ends_when_its_gateway_says_and_never_after_its_activation() -> None:
    story, granted = admitted(ends=60)
    assert granted.expires == story.gateway_records[1].payload["iat"] + 60 < story.activation.expires
    story, granted = admitted(ends=10**8)
    assert granted.expires == story.activation.expires


@pytest.mark.parametrize("ends", [0, -5, None, "soon"])
def test_an_admission_without_an_end_ahead_is_refused(ends: object) -> None:
    with raises_code("session.admission_mismatch", match="lacks the session"):
        admitted(ends=ends)


@pytest.mark.parametrize(
    ("changes", "what"),
    [
        ({"agt__ses": "A" * 22}, "session"),
        ({"agt__evd": link("other")}, "evidence"),
        ({"agt__key": link("other")}, "session key"),
        ({"pol__dig": "sha384:" + "0" * 96}, "policy"),
        ({"man__man": link("other")}, "manifest"),
        ({"man__act": link("other")}, "activation"),
        ({"rel": "20250101.0"}, "release of the isolation"),
        ({"tsk": {"_sd": list(OTHER.digests)}}, "task label"),
        ({"tsk": ...}, "task label"),
        ({"tsk": {"_sd": list(OTHER.digests)}, "labelled": False}, "task label"),
    ],
)
def test_one_wrong_fact_in_the_start_record_ends_the_session(changes: dict[str, Any], what: str) -> None:
    with raises_code("session.admission_mismatch", match=f"another {what}"):
        admitted(**changes)
