import pytest
from tests.raising import raises_code

from affiant.errors import AffiantError, NotAllowedError, StateError
from affiant.secrets.broker.client.members import error_members, read_error
from affiant.secrets.error_codes import ERROR_CODES
from affiant.secrets.names import errors
from affiant.secrets.names.errors import BrokerFailed, SecretNotBound


def test_an_error_crosses_as_its_class_and_text() -> None:
    for kind in (getattr(errors, name) for name in errors.__all__):
        assert type(read_error(error_members(kind("text")))) is kind
    crossed = read_error(error_members(SecretNotBound("no", where="A", expected="x", found="y")))
    assert str(crossed) == "A: no; expected x; found y"


def test_an_error_without_a_class_crosses_as_its_family_and_code() -> None:
    families = {kind.__name__: kind for kind in AffiantError.__subclasses__()}
    for code, (family, _) in ERROR_CODES.items():
        crossed = read_error(error_members(families[family]("text", code=code)))
        assert (type(crossed), crossed.code, str(crossed)) == (families[family], code, "text")


class _OfAnotherPackage(StateError):
    code = "other.state"


@pytest.mark.parametrize("error", [_OfAnotherPackage("text"), StateError("text", code="any text at all")])
def test_an_error_with_a_code_of_no_table_is_a_failure_of_the_broker(error: AffiantError) -> None:
    crossed = read_error(error_members(error))
    assert (type(crossed), crossed.code, str(crossed)) == (BrokerFailed, "broker.internal", "text")


@pytest.mark.parametrize("change", [{"code": None}, {"code": 1}, {"message": []}, {"more": ""}])
def test_anything_else_is_no_error(change: dict[str, object]) -> None:
    with raises_code("broker.protocol"):
        read_error({**error_members(NotAllowedError("text", code="broker.request")), **change})
