"""What the page does not say, at its end."""

from __future__ import annotations

from typing import Final

from affiant.policy.review.elements import Html, element, heading, name, text

__all__ = ["reading"]

_SAYS: Final = (
    "This page says what the file means. That a running agent is held to it is for attestation and receipts to prove: "
    "compare the profile's digest here with the one that they name.\n"
    "Everything that is not allowed is denied; denials win wherever they stand; the order of rules has no meaning.\n"
    "An agent that may reach a host may do anything that host's API allows, unless methods and paths narrow it.\n"
    "Queries of requests are not judged. What a tool does when it is called is the tool's own doing: a tool may reach "
    "what the agent may not.\n"
    "Where a name is too long or holds characters that cannot be seen, it is cut or escaped here; what reads like a "
    "secret is ***. The file has all of it."
)


def reading() -> Html:
    """The limits, and the commands that tell more."""
    more = element(
        "p",
        text("Single questions: "),
        name("affiant policy explain FILE AGENT REQUEST"),
        text(". Everything as JSON: "),
        name("affiant policy can FILE --json"),
        text("."),
    )
    return element(
        "section",
        heading(2, text("How to read this"), anchor="reading"),
        element("ul", *(element("li", text(each)) for each in _SAYS.split("\n"))),
        more,
        aria_labelledby="reading",
    )
