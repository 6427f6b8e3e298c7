"""What was put under a name comes back whole, whatever its length."""

from __future__ import annotations

import pytest

from affiant.attestation.verifier.period.log import spill as module
from affiant.attestation.verifier.period.log.spill import Spill


@pytest.mark.parametrize("read_at_once", [0, 1, 64])
def test_texts_of_every_length_come_back_in_order(read_at_once: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_USUAL", read_at_once)
    texts = [(f"{number:043d}", "x" * number) for number in range(130)]
    with Spill() as spill:
        for number, (rh, text) in enumerate(texts):
            spill.put("even" if number % 2 == 0 else "odd", rh, text)
        assert list(spill.texts("even")) == texts[::2]
        assert list(spill.texts("odd", 3, 2)) == texts[7:11:2]
        assert spill.text("odd", 64) == texts[129]
