from affiant.errors import AffiantError
from affiant.secrets.names import errors

KINDS = [getattr(errors, name) for name in errors.__all__]


def test_every_class_has_a_code_of_its_own() -> None:
    codes = [kind.code for kind in KINDS]
    assert len(set(codes)) == len(codes)
    assert all(issubclass(kind, AffiantError) for kind in KINDS)


def test_public_names_are_sorted() -> None:
    assert sorted(errors.__all__) == list(errors.__all__)
