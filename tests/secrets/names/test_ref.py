import copy
import dataclasses
import json
import logging
import os
import pickle
import subprocess
import sys
import traceback

import pytest
from tests.raising import raises_code

from affiant.secrets.names.errors import SecretNameInvalid
from affiant.secrets.names.ref import SecretRef, resolution_inside_broker
from affiant.secrets.names.value import SecretValue

VALUE = b"ghp_9sX2kQ7vLm4TzR1bYwE6"


def test_a_reference_shows_its_name() -> None:
    assert repr(SecretRef("GITHUB_TOKEN")) == "<SecretRef:GITHUB_TOKEN>"
    assert str(SecretRef("GITHUB_TOKEN")) == "<SecretRef:GITHUB_TOKEN>"
    assert SecretRef("GITHUB_TOKEN").name == "GITHUB_TOKEN"


def test_a_bound_reference_renders_as_its_placeholder() -> None:
    ref = SecretRef("GITHUB_TOKEN").bound_to("affiant-ph-x")
    assert str(ref) == f"{ref}" == "affiant-ph-x"
    assert repr(ref) == "<SecretRef:GITHUB_TOKEN>"
    assert json.loads(json.dumps({"token": ref})) == {"token": "affiant-ph-x"}
    shown = subprocess.run(
        [sys.executable, "-c", "import os; print(os.environ['T'])"],
        env={**os.environ, "T": ref},
        capture_output=True,
        text=True,
        check=True,
    )
    assert shown.stdout == "affiant-ph-x\n"


@dataclasses.dataclass
class Settings:
    token: SecretRef


@pytest.mark.parametrize(
    "copied",
    [
        lambda ref: pickle.loads(pickle.dumps(ref)),
        copy.copy,
        copy.deepcopy,
        lambda ref: dataclasses.asdict(Settings(ref))["token"],
    ],
)
def test_what_travels_is_the_name_alone(copied) -> None:
    travelled = copied(SecretRef("GITHUB_TOKEN").bound_to("affiant-ph-x"))
    assert isinstance(travelled, SecretRef)
    assert str(travelled) == "<SecretRef:GITHUB_TOKEN>"
    assert b"affiant-ph-x" not in pickle.dumps(SecretRef("GITHUB_TOKEN").bound_to("affiant-ph-x"))


def test_outside_the_broker_nothing_resolves() -> None:
    with raises_code("secret.outside_broker"):
        SecretRef("GITHUB_TOKEN").resolve()


def test_inside_the_broker_the_name_is_resolved_and_then_no_more() -> None:
    values = {"GITHUB_TOKEN": SecretValue(VALUE)}
    with resolution_inside_broker(values.__getitem__):
        assert SecretRef("GITHUB_TOKEN").resolve().reveal() == VALUE
    with raises_code("secret.outside_broker"):
        SecretRef("GITHUB_TOKEN").resolve()


def test_a_traceback_and_a_log_line_hold_no_value(caplog) -> None:
    values = {"GITHUB_TOKEN": SecretValue(VALUE)}
    ref = SecretRef("GITHUB_TOKEN").bound_to("affiant-ph-x")
    with resolution_inside_broker(values.__getitem__):
        value = ref.resolve()
        try:
            raise ValueError(value, ref, values)
        except ValueError as error:
            shown = "".join(traceback.TracebackException.from_exception(error, capture_locals=True).format())
            logging.getLogger(__name__).exception("failed with %s %r", ref, value)
    assert VALUE.decode() not in shown + caplog.text


@pytest.mark.parametrize("name", ["", "1A", "A-B", "A B", "A\n", "A" * 65, "Ä", "A=B", "<SecretRef:A>"])
def test_a_name_is_what_an_environment_can_carry(name: str) -> None:
    with pytest.raises(SecretNameInvalid):
        SecretRef(name)
