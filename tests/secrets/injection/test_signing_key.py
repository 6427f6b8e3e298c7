"""The stored value of a key that signs: exactly known members, each strong, and nothing of it in a refusal."""

from __future__ import annotations

import pytest
from tests.secrets.aws_verifier import ACCESS_KEY_ID, SECRET_ACCESS_KEY, SESSION_TOKEN, key

from affiant.errors import AffiantError
from affiant.secrets.injection.signing_key import SigningKey
from affiant.secrets.names.value import SecretValue


def test_the_parts_of_a_key_are_read() -> None:
    read = SigningKey.read(SecretValue(key(session_token=SESSION_TOKEN)))
    assert [part.reveal().decode() for part in read.parts] == [
        ACCESS_KEY_ID,
        SECRET_ACCESS_KEY,
        SESSION_TOKEN,
    ]
    assert SigningKey.read(SecretValue(key())).session_token is None
    assert "AKIA" not in repr(read) and "wJalr" not in repr(read)


ID, SECRET = f'"access_key_id": "{ACCESS_KEY_ID}"', f'"secret_access_key": "{SECRET_ACCESS_KEY}"'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (SECRET_ACCESS_KEY, "secret.sigv4_key"),
        (f"{ACCESS_KEY_ID}:{SECRET_ACCESS_KEY}", "secret.sigv4_key"),
        (f'["{ACCESS_KEY_ID}", "{SECRET_ACCESS_KEY}"]', "secret.sigv4_key"),
        (f"{{{ID}}}", "secret.sigv4_key"),
        (f"{{{SECRET}}}", "secret.sigv4_key"),
        (f'{{{ID}, {SECRET}, "region": "eu-central-1"}}', "secret.sigv4_key"),
        (f'{{{ID}, {SECRET}, "session_token": null}}', "secret.sigv4_key"),
        (f'{{{ID}, {SECRET}, "session_token": ""}}', "secret.sigv4_key"),
        (f'{{{ID}, "secret_access_key": 12345678901234567890}}', "secret.sigv4_key"),
        (f"{{{ID}, {ID}, {SECRET}}}", "secret.sigv4_key"),
        (f"{{{ID}, {SECRET}}} x", "secret.sigv4_key"),
        (f'{{"access_key_id": "AKIA/OSFODNN7EXAMPLE", {SECRET}}}', "secret.sigv4_key"),
        (f'{{"access_key_id": "AKIA7EXAMPLE", {SECRET}}}', "secret.sigv4_key"),
        (f'{{{ID}, "secret_access_key": "wJalrXUtnFEMI K7MDENG"}}', "secret.sigv4_key"),
        (f'{{{ID}, "secret_access_key": "wJalrXUtnFEMI\\nK7MDENG"}}', "secret.sigv4_key"),
        (f'{{{ID}, "secret_access_key": "wJalrXUtn\\u00e4K7MDENG"}}', "secret.sigv4_key"),
        (f'{{{ID}, "secret_access_key": "hunter2"}}', "secret_too_weak"),
        (f'{{{ID}, "secret_access_key": "{"a" * 40}"}}', "secret_too_weak"),
        ("[" * 4000, "secret_too_weak"),
    ],
)
def test_anything_else_is_refused_and_not_repeated(text: str, code: str) -> None:
    with pytest.raises(AffiantError) as refused:
        SigningKey.read(SecretValue(text.encode()))
    assert refused.value.code == code
    told = f"{refused.value!r}{refused.value}{refused.value.__cause__!r}"
    assert not any(part in told for part in ("AKIA", "OSFODNN7", "wJalr", "hunter2", "12345"))
    assert refused.value.__suppress_context__ or refused.value.__context__ is None
