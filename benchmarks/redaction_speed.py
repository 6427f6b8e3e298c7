"""Redaction of a stream with 30 secrets of 40 bytes, and with their parts looked for as well.

The text is JSON as an interface answers it, with nothing to replace, in pieces of 64 KiB. Goal: 40 MB/s.
"""

from __future__ import annotations

import json
import random
import re
import string
import time

from affiant.secrets.names.value import SecretValue
from affiant.secrets.redaction.parts import Parts
from affiant.secrets.redaction.redaction import RedactionStream, Redactor
from benchmarks.timing import Figure, interleaved

SECRETS = 30
PIECE = 1 << 16


def measure() -> list[Figure]:
    source = random.Random(1)
    letters = string.ascii_letters + string.digits
    values = ["ghp_" + "".join(source.choice(letters) for _ in range(36)) for _ in range(SECRETS)]
    secrets = [(SecretValue(value.encode()), f"affiant-ph-{at:032}") for at, value in enumerate(values)]
    redactor, parts = Redactor(secrets), Parts()
    parts.know(secrets)
    plain = re.compile(b"|".join(map(re.escape, map(str.encode, values))))
    rows = [{"id": at, "url": f"https://example.com/\u00e9/{at}"} for at in range(20_000)]
    text = json.dumps(rows).encode()
    pieces = [text[at : at + PIECE] for at in range(0, len(text), PIECE)]

    def redacted(known: Parts | None) -> None:
        stream = RedactionStream(redactor, parts=known)
        for piece in pieces:
            stream.feed(piece)
        stream.flush()

    def searched() -> None:
        for piece in pieces:
            plain.sub(b"", piece)

    figures = []
    for name, known in (("redaction, 30 secrets", None), ("and parts of them", parts)):
        ours, peer = interleaved(
            lambda known=known: redacted(known), searched, count=1, clock=time.process_time
        )
        megabytes = len(text) / 1e6
        figures.append(Figure(name, megabytes / ours, "MB/s", "re, the plain values", megabytes / peer))
    return figures
