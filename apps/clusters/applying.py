"""Writes objects to members: by server-side apply, or by create and update where a member cannot apply an object.

Every write says which object of the member it is made for [member-writes].
"""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Any, Final, Protocol

from msgspec.structs import replace

from apps.clusters.ownership import belongs_to, not_ours
from apps.clusters.releasing import MERGE, Read
from controlplane.clusters.comparing import comparison
from controlplane.clusters.conditional_apply import conditional, is_outdated
from controlplane.clusters.questions import FIELD_MANAGER, Answer, Ensure
from controlplane.clusters.replacing import is_unapplicable, replacement, taken_over

APPLY: Final = "application/apply-patch+yaml"  # JSON is YAML
ATTEMPTS: Final = 3  # of a write whose object changes meanwhile

Document = dict[str, Any]


class Call(Protocol):
    """Sends a request to a member."""

    def __call__(
        self,
        method: str,
        path: str,
        *,
        params: dict[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
    ) -> Awaitable[Answer]: ...


def may_write(question: Ensure, held: Document) -> bool:
    """Test whether the object of a member may be changed: it is ours, or the question has `overwrite`."""
    return question.overwrite or belongs_to(question.target.cluster, held)


class Applying:
    """Writes the object of one question, which is at `path` on its member."""

    def __init__(self, call: Call, read: Read, question: Ensure, path: str) -> None:
        self._call, self._read = call, read
        self._question, self._path = question, path

    async def ensure(self, known: Document | None) -> Answer:
        """Return the member's answer, as `MemberClient.ensure` describes it. `known`: the object as it was read last;
        None: none was read."""
        question = self._question
        if question.looks_first:
            answer = await self._applied(known if known is not None and may_write(question, known) else None)
        else:
            answer = await self._apply(question.manifest)
        if is_unapplicable(answer):
            return await self._create_or_update(answer)
        return await self._owning(answer) if answer.ok else answer

    async def compare(self, held: Document) -> Answer:
        """Return what an apply would make of the object of the member (`held`), from a dry run."""
        answer = await self._apply(self._question.over(held), dry_run=True)
        if is_unapplicable(answer):
            params = {"fieldManager": FIELD_MANAGER, "dryRun": "All"}
            answer = await self._call("PUT", self._path, params=params, body=replacement(self._question, held))
        return replace(comparison(held, answer.body), body=held) if answer.ok else answer

    async def _applied(self, known: Document | None) -> Answer:
        """Apply the manifest to the known object. If the member has another one, that is read and applied to, provided
        that it may be written.

        The condition holds for each attempt: between two requests others may create the object, or change a field that
        is kept. An object that changes all the time is tried again later.
        """
        question = self._question
        for attempt in range(1, ATTEMPTS + 1):
            manifest = question.manifest if known is None else question.over(known)
            answer = await self._apply(conditional(question, manifest, known))
            if not is_outdated(answer, known) or attempt == ATTEMPTS:
                break
            current = await self._read(self._path)
            if not current.ok and current.code != 404:
                return current
            if current.ok and not may_write(question, current.body):
                return not_ours(current.body)
            known = current.body if current.ok else None
        return answer

    async def _apply(self, manifest: Document, *, dry_run: bool = False) -> Answer:
        params = {"fieldManager": FIELD_MANAGER, "force": "true", **({"dryRun": "All"} if dry_run else {})}
        return await self._call("PATCH", self._path, params=params, body=manifest, content_type=APPLY)

    async def _create_or_update(self, refused: Answer) -> Answer:
        """Create the object, or update the existing one. `refused`: why it was not applied; the answer repeats it."""
        question, path, params = self._question, self._path, {"fieldManager": FIELD_MANAGER}
        answer = refused
        for _ in range(ATTEMPTS):
            current = await self._call("GET", path)
            if current.code == 404:
                answer = await self._call("POST", path.rpartition("/")[0], params=params, body=question.manifest)
            elif not current.ok:
                return current
            elif not may_write(question, current.body):
                return not_ours(current.body)
            else:
                answer = await self._call("PUT", path, params=params, body=replacement(question, current.body))
            if answer.code != 409:
                break
        if not answer.ok:
            return answer
        return replace(answer, note=f"created or updated instead of applied: {refused.problem}")

    async def _owning(self, answer: Answer) -> Answer:
        """Take over the fields of an earlier create or update by Lifeboat, and apply again.

        Without that, fields that were removed from the manifest since would stay on the member.
        """
        for _ in range(ATTEMPTS):
            patch = taken_over(answer.body)
            if patch is None:
                break
            taken = await self._call("PATCH", self._path, body=patch, content_type=MERGE)
            if not taken.ok and taken.code != 409:
                return taken
            answer = await self._applied(taken.body if taken.ok else answer.body)
            if not answer.ok:
                break
        return answer
