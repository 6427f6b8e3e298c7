"""The table of keys is what the reader knows, mapping by mapping."""

from __future__ import annotations

import pytest

from affiant.errors import AffiantError
from affiant.policy.loading.load import load_profiles
from affiant.policy.normal_form.format_keys import EVERY_KEY, KEYS

DOCUMENTS = {
    "a profile file": "{q: 1}",
    "a baseline policy": "{q: 1}",
    "a profile": "{q: 1}",
    "a tool": "{tools: [{q: 1}]}",
    "a provider tool": "{provider_tools: [{q: 1}]}",
    "a port": "{ports: [{q: 1}]}",
    "an agent to start": "{may_start: [{q: 1}]}",
    "an argument": "{tools: [{name: x, args: {a: {q: 1}}}]}",
    "'each'": "{tools: [{name: x, args: {a: {each: {q: 1}}}}]}",
    "a path": "{filesystem_access: [{q: 1}]}",
    "an egress rule": "{network_egress: [{q: 1}]}",
    "an egress denial": "{network_egress: [{deny: a.b, q: 1}]}",
    "a secret": "{secrets_access: [{q: 1}]}",
    "'inject'": "{secrets_access: [{name: A, inject: {q: 1}}]}",
    "'body'": "{secrets_access: [{name: A, inject: {body: {q: 1}}}]}",
    "'exchange'": "{secrets_access: [{name: A, inject: {exchange: {q: 1}}}]}",
    "'sigv4'": "{secrets_access: [{name: A, inject: {sigv4: {q: 1}}}]}",
    "a rule's 'limits'": "{network_egress: [{host: a.b, limits: {q: 1}}]}",
    "a model": "{models: [{q: 1}]}",
    "'requires_human_approval'": "{requires_human_approval: {q: 1}}",
    "an approver": "{requires_human_approval: {approvers: [{q: 1}]}}",
    "'limits'": "{limits: {q: 1}}",
    "'resources'": "{resources: {q: 1}}",
    "a test": "{tests: [{q: 1}]}",
    "a test's request": "{tests: [{allow: {q: 1}}]}",
}


def test_every_mapping_of_the_format_is_asked() -> None:
    assert DOCUMENTS.keys() == KEYS.keys()
    assert "secrets_access" in EVERY_KEY


@pytest.mark.parametrize("mapping", KEYS)
def test_the_reader_knows_these_keys_and_no_others(mapping: str) -> None:
    text, floor = DOCUMENTS[mapping], None
    if mapping == "a baseline policy":
        text, floor = "{}", text.encode()
    elif mapping != "a profile file":
        text = f"agent_configs: {{dev: {text}}}"
    with pytest.raises(AffiantError) as caught:
        load_profiles(text.encode(), floor=floor)
    assert caught.value.code == "policy.unknown_key"
    key = "(not shown)" if mapping in {"a secret", "'inject'", "'body'", "'exchange'", "'sigv4'"} else "'q'"
    assert caught.value.message == f"unknown key {key} in {mapping}"
    assert caught.value.hint == "Known: " + ", ".join(sorted(KEYS[mapping]))
