"""Compares an object of a member with what an apply would make of it [observed-clusters]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from controlplane.apimachinery.equality import same
from controlplane.apimachinery.names import OUR_PREFIXES
from controlplane.clusters.questions import DIFFERENT, MARKS, MISSING, SAME, Answer

Document = dict[str, Any]

MOST_PATHS: Final = 8  # that a note names; it counts the others
# Fields that every write changes, and fields that no apply of ours changes.
_IGNORED: Final = frozenset({"managedFields", "resourceVersion", "generation", "uid", "creationTimestamp"})
_MARKED: Final = ("labels", "annotations")


def comparison(held: Document | None, applied: Document) -> Answer:
    """Return the answer to a Compare.

    `held` is the object of the member, None: there is none. `applied` is the answer of the member to a dry run.
    Labels and annotations that begin with one of OUR_PREFIXES are marks of the control plane. They
    count only if nothing else differs (MARKS), because their change restarts no pod.
    """
    if held is None:
        return Answer(200, reason=MISSING, note="The member does not have the object; it would be created.")
    paths = list(changed_paths(_without_noise(held), _without_noise(applied)))
    marks = [path for path in paths if _is_mark(path)]
    others = [".".join(path) for path in paths if not _is_mark(path)]
    if others:
        more = f" and {len(others) - MOST_PATHS} more" if len(others) > MOST_PATHS else ""
        return Answer(200, reason=DIFFERENT, note=f"An apply would change {', '.join(others[:MOST_PATHS])}{more}.")
    if marks:
        count = f"{len(marks)} label or annotation" if len(marks) == 1 else f"{len(marks)} labels and annotations"
        return Answer(200, reason=MARKS, note=f"An apply would change nothing but {count} of the control plane.")
    return Answer(200, reason=SAME, note="An apply would change nothing.")


def changed_paths(before: Any, after: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """Yield the paths of the values that differ, the outermost where a whole value was added or removed."""
    if isinstance(before, dict) and isinstance(after, dict):
        for key in sorted({*before, *after}):
            if not same(before.get(key), after.get(key)):
                yield from changed_paths(before.get(key), after.get(key), (*path, key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from changed_paths(one, other, (*path[:-1], f"{path[-1]}[{index}]"))
    elif not same(before, after):
        yield path


def _without_noise(document: Document) -> Document:
    metadata = {key: value for key, value in (document.get("metadata") or {}).items() if key not in _IGNORED}
    return {**{key: value for key, value in document.items() if key != "status"}, "metadata": metadata}


def _is_mark(path: tuple[str, ...]) -> bool:
    return len(path) == 3 and path[0] == "metadata" and path[1] in _MARKED and path[2].startswith(OUR_PREFIXES)


def without_marks(obj: Document, part: str) -> dict[str, None]:
    """Return the merge patch that removes the labels or annotations of the control plane from an object."""
    return {key: None for key in obj.get("metadata", {}).get(part) or {} if key.startswith(OUR_PREFIXES)}
