"""Salts a session's task label: the workflow, task, attempt and parent that its starter says it belongs to.

The digests are in the activation, which the session's quote binds, and the gateway repeats them in the start record.
The gateway learns no value. The starter keeps the disclosures, and puts them behind the start record for readers who
may see the label; each of the four can be shown alone.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from affiant.attestation.encoding.canonical import parse_object
from affiant.attestation.records.issuing import conceal
from affiant.attestation.records.receipt import parse_receipt
from affiant.attestation.schema.disclosure import disclosure_digest
from affiant.attestation.schema.records import TASK
from affiant.attestation.schema.shapes import ShapeMismatch
from affiant.errors import MalformedError

__all__ = ["TaskLabel", "TaskLabelMalformed", "make_task_label", "require_task_label", "shown_label"]


class TaskLabelMalformed(MalformedError):
    """A task label has another member than workflow, task, attempt and parent, or one of another form."""

    code = "session.task"


@dataclass(frozen=True, slots=True)
class TaskLabel:
    """A salted label.

    Args:
        digests: four, sorted, decoys among them: ``task`` of the activation, ``tsk`` of the start record.
        disclosures: of those members that have a value; a reader with the disclosure can read the value.
    """

    digests: tuple[str, ...]
    disclosures: tuple[str, ...]

    def __repr__(self) -> str:
        return f"TaskLabel(digests={self.digests!r})"


def require_task_label(values: Mapping[str, object]) -> None:
    """Return if ``values`` are a task label: one to four of its members, each of its form.

    Raises:
        TaskLabelMalformed: they are not.
    """
    if not values or not values.keys() <= TASK.hidden.keys():
        names = ", ".join(TASK.hidden)
        found = ", ".join(sorted(map(str, values))) or "no member"
        raise TaskLabelMalformed("not a task label", expected=f"one or more of {names}", found=found)
    for name, value in values.items():
        try:
            TASK.hidden[name].check(value, name)
        except ShapeMismatch as error:
            shape = TASK.hidden[name].describe()
            raise TaskLabelMalformed(f"the task label's {name} has another form", expected=shape) from error


def make_task_label(values: Mapping[str, object], *, random_bytes: Callable[[int], bytes]) -> TaskLabel:
    """Salt ``values``.

    Args:
        values: ``workflow``, ``task``, ``parent``: text of at most 256 characters; ``attempt``: a number from 0. At
            least one of them.
        random_bytes: the operating system's generator.

    Raises:
        TaskLabelMalformed: another member, another form, or no member.
    """
    require_task_label(values)
    concealed = conceal([(TASK, values)], random_bytes=random_bytes)
    return TaskLabel(tuple(concealed.digests[0]), tuple(concealed.disclosures))


def shown_label(sdjwt: str, disclosures: Sequence[str], *, session: str | None = None) -> str:
    """``sdjwt`` with those of a label's ``disclosures`` that it commits to, if it is a start record.

    Args:
        session: only of this session; None: of any.
    """
    receipt = parse_receipt(sdjwt)
    match parse_object(receipt.split.payload):
        case {"kind": "session-start", "agt": {"ses": str(named)}, "tsk": {"_sd": list(digests)}}:
            if session in {named, None}:
                new = (each for each in disclosures if each not in receipt.disclosures)
                return sdjwt + "".join(f"{each}~" for each in new if disclosure_digest(each) in digests)
    return sdjwt
