"""The body of add-checkpoint: one spelling, bounded."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.attestation.log.witness.conftest import LOG, request

from affiant.attestation.log.witness.checkpoint_request import (
    MAX_REQUEST_BYTES,
    encode_submission,
    parse_submission,
)
from affiant.attestation.log.witness.errors import WitnessRequestMalformed

GOOD = request(5, 9)
# The example of C2SP tlog-witness.
PUBLISHED = """old 20852014
PlRNCrwHpqhGrupue0L7gxbjbMiKA9temvuZZDDpkaw=
jrJZDmY8Y7SyJE0MWLpLozkIVMSMZcD5kvuKxPC3swk=
5+pKlUdi2LeF/BcMHBn+Ku6yhPGNCswZZD1X/6QgPd8=
/6WVhPs2CwSsb5rYBH5cjHV/wSmA79abXAwhXw3Kj/0=

example.com/behind-the-sofa
20852163
CsUYapGGPo4dkMgIAUqom/Xajj7h2fB2MPA3j2jxq2I=

— example.com/behind-the-sofa \
Az3grlgtzPICa5OS8npVmf1Myq/5IZniMp+ZJurmRDeOoRDe4URYN7u5/Zhcyv2q1gGzGku9nTo+zyWE+xeMcTOAYQ8=
""".encode()


def test_the_published_example_is_read_and_written_back() -> None:
    found = parse_submission(PUBLISHED)
    assert (found.old, found.size, len(found.path)) == (20852014, 20852163, 4)
    assert encode_submission(found.old, found.path, found.note) == PUBLISHED


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"old 5\n\n",
        GOOD.replace(b"old 5", b"old 05"),
        GOOD.replace(b"old 5", b"old -5"),
        GOOD.replace(b"old 5", b"old  5"),
        GOOD.replace(b"old 5", b"old 5 "),
        GOOD.replace(b"old 5\n", b"old 5\r\n"),
        GOOD.replace(b"old 5", b"new 5"),
        GOOD.replace(b"old 5\n", b"old 5\nAAAA\n"),
        GOOD.replace(b"old 5\n", b"old 5\n" + b"A" * 43 + b"=\n" + b"B" * 43 + b"=\n"),
        GOOD.replace(b"old 5\n", b"old 5\n" + (b"A" * 43 + b"=\n") * 64),
        GOOD.replace(b"old 5\n", "old 5\n٣\n".encode()),
        GOOD.replace(b"\n\n", b"\n", 1),
        GOOD[:-1],
        GOOD + b"\n",
        GOOD + b"x" * MAX_REQUEST_BYTES,
        b"old 5\n\nno checkpoint\n\n" + LOG.note(9).to_bytes().split(b"\n\n")[1],
    ],
)
def test_another_form_is_refused(body: bytes) -> None:
    with pytest.raises(WitnessRequestMalformed):
        parse_submission(body)


@given(st.binary(max_size=200), st.integers(0, len(GOOD)))
def test_whatever_comes_is_read_as_it_stands_or_refused(junk: bytes, at: int) -> None:
    for body in (junk, GOOD[:at] + junk + GOOD[at:], GOOD[:at] + junk):
        try:
            found = parse_submission(body)
        except WitnessRequestMalformed:
            continue
        assert encode_submission(found.old, found.path, found.note) == body
