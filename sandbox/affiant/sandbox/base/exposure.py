"""What a service with its own user may see of folders that others may not enter. Pure: a plan, no mount.

An interpreter or a checkout often lives below a folder of mode 0700 (``/root``, a home, ``mktemp -d``). A
service that is not that folder's owner cannot read its own code there. Making the folder open to all users
would be worse than the problem, so the service gets a view of its own (mount_namespaces(7)):

1. each closed folder on the way to something that is needed is covered by an empty one (``Cover``);
2. exactly what is needed is shown there again (``Show``), read-only unless it is the service's own state;
3. symbolic links on the way are made again (``Link``).

Everything else below a covered folder does not exist for the service, its owner's keys included.

>>> facts = Facts(is_closed=lambda path: path == "/root", readlink=lambda path: None)
>>> for step in exposure_plan((Need("/root/python"), Need("/usr"), Need("/root/state", writable=True)), facts):
...     print(step)
Cover(path='/root')
Show(path='/root/python', writable=False)
Show(path='/root/state', writable=True)
"""

from __future__ import annotations

import posixpath
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Final

from affiant.errors import ConfigurationError

__all__ = [
    "Cover",
    "Facts",
    "Link",
    "Need",
    "Show",
    "Step",
    "exposure_plan",
    "step_from_json",
    "step_to_json",
]

_MAX_LINKS: Final = 40
"""Links followed for one path: the kernel's own limit (path_resolution(7))."""


@dataclass(frozen=True, slots=True)
class Need:
    """A file or folder that the service must reach, by absolute path."""

    path: str
    writable: bool = False


@dataclass(frozen=True, slots=True)
class Facts:
    """What the plan must know of the file system.

    Args:
        is_closed: whether users other than its owner cannot pass through the folder.
        readlink: a symbolic link's target; None if the path is no link.
    """

    is_closed: Callable[[str], bool]
    readlink: Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Cover:
    """Put an empty folder over this one."""

    path: str


@dataclass(frozen=True, slots=True)
class Show:
    """Show what was at this path before anything was covered."""

    path: str
    writable: bool


@dataclass(frozen=True, slots=True)
class Link:
    """Make this symbolic link again, inside a covered folder."""

    path: str
    target: str


Step = Cover | Show | Link


def exposure_plan(needs: Iterable[Need], facts: Facts) -> tuple[Step, ...]:
    """The steps, in the order to take them, after which every need is reachable; none if all are already.

    Raises:
        ``service.unreadable``: a path is relative, or has too many links.
    """
    wanted: dict[str, bool] = {}
    links: dict[str, str] = {}
    for need in needs:
        real, met = _resolve(need.path, facts)
        wanted[real] = wanted.get(real, False) or need.writable
        links.update(met)
    steps: list[Step] = []
    for path in sorted(wanted, key=lambda path: path.split("/")):
        steps += _steps_for(path, wanted[path], steps, facts)
    return (*steps, *_links(links, steps))


def _steps_for(path: str, writable: bool, before: Sequence[Step], facts: Facts) -> list[Step]:  # noqa: FBT001
    """What one need adds to the steps ``before`` it, which are those of all paths above it."""
    shown = [step for step in before if isinstance(step, Show) and _covers(step.path, path)]
    base = shown[-1] if shown else None
    closed = next(
        (above for above in _above(path, base.path if base else "/") if facts.is_closed(above)), None
    )
    if closed is not None:
        cover = Cover(closed)
        return [Show(path, writable)] if cover in before else [cover, Show(path, writable)]
    if base is not None and writable and not base.writable:
        return [Show(path, writable)]
    return []


def _above(path: str, base: str) -> list[str]:
    """The folders strictly between ``base`` and ``path``, outermost first."""
    parts = path.split("/")[1:-1]
    folders = ["/" + "/".join(parts[:count]) for count in range(1, len(parts) + 1)]
    return [folder for folder in folders if base == "/" or (_covers(base, folder) and folder != base)]


def _links(links: Mapping[str, str], steps: Sequence[Step]) -> list[Link]:
    """Those links that a cover has hidden and nothing shows again."""
    covers = [step.path for step in steps if isinstance(step, Cover)]
    shows = [step.path for step in steps if isinstance(step, Show)]

    def hidden(path: str) -> bool:
        cover = max((len(above) for above in covers if _covers(above, path)), default=-1)
        return cover > max((len(above) for above in shows if _covers(above, path)), default=-1)

    return [Link(path, target) for path, target in sorted(links.items()) if hidden(path)]


def _resolve(path: str, facts: Facts) -> tuple[str, Mapping[str, str]]:
    """The path without links, and each link met on the way (path_resolution(7))."""
    if not path.startswith("/"):
        raise ConfigurationError(
            "a needed path must be absolute", found=repr(path[:120]), code="service.unreadable"
        )
    met: dict[str, str] = {}
    hops = 0
    todo = path.split("/")[::-1]
    done = "/"
    while todo:
        part = todo.pop()
        if part in {"", "."}:
            continue
        if part == "..":
            done = posixpath.dirname(done)
            continue
        here = posixpath.join(done, part)
        target = facts.readlink(here)
        if target is None:
            done = here
            continue
        hops += 1
        if hops > _MAX_LINKS:
            raise ConfigurationError(
                "too many symbolic links on the way", where=path, code="service.unreadable"
            )
        met[here] = target
        todo += target.split("/")[::-1]
        done = "/" if target.startswith("/") else done
    return done, met


def _covers(above: str, path: str) -> bool:
    return above in {"/", path} or path.startswith(above + "/")


def step_to_json(step: Step) -> list[object]:
    """A step as it travels to the process that takes it."""
    return [type(step).__name__.lower(), *astuple(step)]


def step_from_json(value: object) -> Step:
    """The step that :func:`step_to_json` wrote."""
    match value:
        case ["cover", str() as path]:
            return Cover(path)
        case ["show", str() as path, bool() as writable]:
            return Show(path, writable)
        case ["link", str() as path, str() as target]:
            return Link(path, target)
        case _:
            raise ConfigurationError(
                "not a step of an exposure plan", found=repr(value)[:120], code="service.unreadable"
            )
