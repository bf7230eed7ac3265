"""Releases objects of Lifeboat: they stay on the member without its marks [member-writes]."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from apps.clusters.ownership import is_ours
from controlplane.apimachinery.names import LEFT_COPIES_ANNOTATION
from controlplane.clusters.comparing import without_marks
from controlplane.clusters.questions import FIELD_MANAGER, Answer

MERGE: Final = "application/merge-patch+json"
NOTES_MANAGER: Final = f"{FIELD_MANAGER}-notes"  # another one than of applies: these remove what they do not set

Document = dict[str, Any]


class Call(Protocol):
    """Sends a request to a member."""

    def __call__(
        self, method: str, path: str, *, params: dict[str, str] | None = None, body: Any = None, content_type: str = ""
    ) -> Awaitable[Answer]: ...


class Read(Protocol):
    """Sends GET to a member. The answer is a failure if it is not a JSON object."""

    def __call__(self, path: str) -> Awaitable[Answer]: ...


def has_left_copies(manifest: Document, held: Document) -> bool:
    """Test whether an object of a member (`held`) is a Namespace in which released objects are."""
    is_namespace = (manifest.get("apiVersion"), manifest.get("kind")) == ("v1", "Namespace")
    return is_namespace and LEFT_COPIES_ANNOTATION in (held["metadata"].get("annotations") or {})


async def release(call: Call, read: Read, path: str, held: Document) -> Answer:
    """Remove the marks of Lifeboat from an object of a member (`held`), which is at `path`.

    Its Namespace gets a note before: if it was deleted with its template, everything that was left in it would go too.
    """
    namespace = held["metadata"].get("namespace")
    refused = await _note(call, read, f"/api/v1/namespaces/{namespace}") if namespace else None
    if refused is not None:
        return refused
    marks = {part: without_marks(held, part) for part in ("labels", "annotations")}
    marks["annotations"][LEFT_COPIES_ANNOTATION] = None
    return await call("PATCH", path, body={"metadata": marks}, content_type=MERGE)


async def _note(call: Call, read: Read, path: str) -> Answer | None:
    """Note on a Namespace that released objects are in it. Returns the answer of the member if that failed.

    A Namespace that is not managed by Lifeboat is never deleted and needs no note.
    """
    found = await read(path)
    if not found.ok:
        return found
    if not is_ours(found.body) or LEFT_COPIES_ANNOTATION in (found.body["metadata"].get("annotations") or {}):
        return None
    note = {"metadata": {"annotations": {LEFT_COPIES_ANNOTATION: "true"}}}
    noted = await call("PATCH", path, params={"fieldManager": NOTES_MANAGER}, body=note, content_type=MERGE)
    return None if noted.ok else noted
