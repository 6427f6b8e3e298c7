import re

from affiant.errors import AffiantError
from affiant.secrets.names import errors as refusals
from affiant.secrets.names.errors import BrokerFailed, SecretNotBound, from_members, to_members

KINDS = [kind for name in refusals.__all__ if isinstance(kind := getattr(refusals, name), type)]


def test_every_refusal_has_a_code_of_its_own_and_stands_in_the_page() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert set(codes) == set(
        re.findall(r"[a-z]+[._][a-z0-9_]+", refusals.__doc__.partition("::")[2].partition("A text")[0])
    )
    assert all(issubclass(kind, AffiantError) for kind in KINDS)


def test_public_names_are_sorted() -> None:
    assert sorted(refusals.__all__, key=lambda name: (name.islower(), name)) == list(refusals.__all__)


def test_a_refusal_crosses_as_its_code_and_text() -> None:
    for kind in KINDS:
        assert type(from_members(**to_members(kind("text")))) is kind
    crossed = from_members(**to_members(SecretNotBound("no", where="A", expected="x", found="y")))
    assert str(crossed) == "A: no; expected x; found y"


def test_an_unknown_code_is_a_failure_of_the_broker() -> None:
    assert type(from_members("no.such", "text")) is BrokerFailed
