"""Sends the questions of controllers to members, and keeps what watches on members report."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from typing import Any

from msgspec.structs import replace

from apps.clusters.client import MemberClient
from apps.clusters.response_reader import TooMuch
from apps.members.host import Host
from apps.members.rules import Rules
from apps.members.watches import CachedObject, Key, Watches
from apps.objects.instruments import member_request
from apps.objects.tracing import span
from apps.worker.clock import monotonic_seconds
from controlplane.apimachinery.meta import Ref
from controlplane.clusters import drift
from controlplane.clusters.questions import (
    SAME,
    Answer,
    Collect,
    Compare,
    Discard,
    Ensure,
    Observe,
    Probe,
    Question,
    retaining,
)
from controlplane.interpret import InterpretationFailed, Unanswered
from controlplane.settings import MemberSettings

ROUNDS = 3  # how often a rule of a user is waited for; then the object is due again soon, and others get their turn
DRY_RUN_SECONDS = 10.0  # for the whole comparison: the status of an object must not wait longer for it

Document = dict[str, Any]
Held = tuple[str, tuple[str, ...]]  # cluster, and what identifies an object there
Asking = Probe | Collect | Ensure | Compare | Discard  # questions that are sent to a member


class Answers:
    """The connections to members, in one event loop.

    `changed` is called with Works whose objects changed on members, `read` with each kind that was listed there.
    """

    def __init__(
        self,
        host: Host,
        settings: MemberSettings,
        *,
        changed: Callable[[list[Ref]], None],
        read: Callable[[Key], None],
    ) -> None:
        self._rules = Rules(host.interpret)
        self._accepted: dict[Held, str] = {}  # differences that objects have after an apply
        self._changed: dict[Held, str] = {}  # differences that an apply would change, as members said
        self.client = MemberClient(settings)
        self.watches = Watches(
            self.client, changed, read, longest=settings.watch_bytes, compare_seconds=settings.compare_seconds
        )

    async def close(self) -> None:
        """End all watches and close all connections."""
        await self.watches.close()
        await self.client.close()
        await self._rules.close()

    async def answer(self, question: Question) -> Answer:
        """Return a member's answer to one question. Raises Unanswered if a rule of a user has to answer before."""
        if isinstance(question, Observe):
            return await self._observed(question)
        if isinstance(question, Probe):
            return await measured("probe", question, self.client.probe(question))
        if isinstance(question, Collect):
            return await measured("collect", question, self.client.collect(question))
        if isinstance(question, Discard):
            self._forget((question.target.cluster, place_of(question.manifest)))
            return await measured("remove", question, self.client.discard(question))
        if isinstance(question, Compare):
            return await measured("compare", question, self.client.compare(question))
        # Read before the apply, because the watch may report the change before the member answers.
        before = self.watches.cached(question.target.cluster, question.manifest)
        return await self._cached(question, await measured("apply", question, self._ensure(question, before)), before)

    async def _observed(self, question: Observe) -> Answer:
        """Return the cached object, and how it differs from its manifest because of a change on the member."""
        answer = self.watches.observe(question)
        if not answer.ok:
            return answer
        key, manifest = (question.cluster, place_of(question.manifest)), question.manifest
        try:
            found = drift.differences(await self._retaining(manifest, answer.body), answer.body)
        except InterpretationFailed:
            return answer  # the apply reports it
        if repr(found) == self._accepted.get(key, "[]") or (
            question.asks and await self._is_as_applied(question, found)
        ):
            return answer
        return replace(answer, drift=drift.described(found, kind=manifest.get("kind", "")))

    async def _is_as_applied(self, question: Observe, found: list[drift.Difference]) -> bool:
        """Test by a dry run whether an apply would leave an object as it is, although it differs from its manifest.

        This process has not applied the object itself: it was started since, or another process did. Each difference is
        asked about once, unless the member does not answer.
        """
        target, manifest = self.watches.target(question), question.manifest
        key = (question.cluster, place_of(manifest))
        if target is None or self._changed.get(key) == repr(found):
            return False
        compare = Compare(Ensure(target, manifest, overwrite=False))
        try:
            async with asyncio.timeout(DRY_RUN_SECONDS):
                answer = await measured("compare", compare, self.client.compare(compare))
                if answer.reason != SAME:
                    if answer.ok:
                        self._changed[key] = repr(found)
                    return False
                # The member may have changed the object since the watch reported it.
                left = drift.differences(await self._retaining(manifest, answer.body), answer.body)
        except (TimeoutError, InterpretationFailed, Unanswered):
            return False
        self._accepted[key] = repr(left)
        return True

    async def _retaining(self, manifest: Document, held: Document) -> Document:
        """Return a manifest with what the member keeps. Raises InterpretationFailed, and Unanswered after a while."""
        for _ in range(ROUNDS):
            try:
                return retaining(manifest, held)
            except Unanswered as error:
                await self._rules.ask(error.questions)
        return retaining(manifest, held)

    async def _ensure(self, question: Ensure, before: CachedObject | None) -> Answer:
        """Return the member's answer to an apply. The rule of a user may say what the member's object keeps.

        Raises Unanswered after a while: then nothing was applied.
        """
        known = None if before is None else before.document
        for _ in range(ROUNDS):
            try:
                return await self.client.ensure(question, known)
            except Unanswered as error:
                unanswered = error
                await self._rules.ask(error.questions)
            except InterpretationFailed as error:
                return Answer(0, problem=str(error))
        raise unanswered

    async def _cached(self, question: Ensure, answer: Answer, before: CachedObject | None) -> Answer:
        """Return the answer to an apply without its object, which is put into the watch cache.

        `before`: the object that was cached before the apply; None: none was cached.
        Differences that the object has right after an apply are no drift: the member writes these fields in its way.
        """
        cluster, manifest, held = question.target.cluster, question.manifest, answer.body
        if not answer.ok or not isinstance(held, dict) or not isinstance(held.get("metadata"), dict):
            return replace(answer, body=None)
        try:
            self.watches.add(question.target, manifest, held)
            after = self.watches.cached(cluster, manifest)
            unchanged = before is not None and after is not None and before.version == after.version
            found = drift.differences(await self._retaining(manifest, held), held)
        except (InterpretationFailed, Unanswered):  # the next look at the object asks the rule again
            return replace(answer, body=None)
        except (TooMuch, ValueError, TypeError) as error:
            self.client.complain(cluster, f"answer to an apply: {error}")
            return replace(answer, body=None)
        key = (cluster, place_of(manifest))
        self._forget(key)
        if found:
            self._accepted[key] = repr(found)
        return replace(answer, body=None, unchanged=unchanged)

    def _forget(self, key: Held) -> None:
        """Forget the differences of an object that is applied or removed."""
        self._accepted.pop(key, None)
        self._changed.pop(key, None)


def place_of(manifest: Document) -> tuple[str, ...]:
    """Return what identifies an object on its member."""
    metadata = manifest.get("metadata") or {}
    return manifest.get("apiVersion", ""), manifest.get("kind", ""), metadata.get("namespace", ""), metadata["name"]


async def measured(request: str, question: Asking, asking: Awaitable[Answer]) -> Answer:
    """Return a member's answer, and count the request with its duration."""
    cluster, began, failed = question.target.cluster, monotonic_seconds(), True
    try:
        with span(f"member {request}", cluster=cluster):
            answer = await asking
        failed = not answer.code or answer.access or answer.code >= HTTPStatus.INTERNAL_SERVER_ERROR
        return answer
    finally:
        member_request(cluster, request, seconds=monotonic_seconds() - began, failed=failed)
