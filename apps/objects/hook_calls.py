"""Calls of admission webhooks for one write [admission-webhooks]. No lock is held, and no transaction is open."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import lru_cache
from threading import BoundedSemaphore
from typing import Any, Final, NamedTuple

from django.conf import settings as configured

from apps.objects import audit, cel_expressions
from apps.objects.webhook_client import FAILURES, WebhookClient
from controlplane.admission.admission_request import Write, request_of, seen
from controlplane.admission.matching import DELETE, Subject
from controlplane.admission.webhooks import (
    Failed,
    Hook,
    HookAnswer,
    answer_of,
    failed,
    patched,
    refused,
    review_of,
    undecided,
    unpatchable,
)
from controlplane.apimachinery.equality import same
from controlplane.apimachinery.errors import StatusError, TooManyRequests
from controlplane.settings import MemberSettings
from controlplane.wire.resource import Resource

Document = dict[str, Any]
Convert = Callable[[Resource, Document | None, str], Document | None]
"""Returns a document in another version of its resource."""

ALL_SECONDS: Final = 30.0  # for all webhooks of one write together
_RETRY_SECONDS: Final = 1
_OPEN: Final = "failed-open.admission.lifeboat.io/"


class Call(NamedTuple):
    """A request to a webhook, on its way."""

    hook: Hook
    uid: str
    answer: Future[Any]
    seconds: float


class HookCalls:
    """The calls for the writes of one request. `convert` gives objects in the version that a webhook asks for."""

    def __init__(
        self, settings: MemberSettings, write: Write, *, namespace: Callable[[str], Document | None], convert: Convert
    ) -> None:
        self._client = _client(settings)
        self._write = write
        self._namespace = namespace
        self._convert = convert
        self._ends = time.monotonic() + ALL_SECONDS
        self.warnings: list[str] = []

    def changed(self, hooks: Sequence[Hook], subject: Subject, fits: Callable[[Document], Subject]) -> Subject:
        """Return the write after the patches of mutating webhooks, which are called one after the other.

        `fits` returns the write with another object. A webhook with reinvocationPolicy IfNeeded is called once more if
        a later one changed the object. Raises the errors of webhooks.
        """
        called: set[Hook] = set()
        again: set[Hook] = set()
        for is_repeated in (False, True):
            for hook in hooks:
                if is_repeated and hook not in again:
                    continue
                before = subject
                subject, was_called = self._change(hook, subject, fits)
                if subject is not before:
                    again |= called
                    called = set()
                if was_called and hook.again:
                    called.add(hook)
        return subject

    def _change(self, hook: Hook, subject: Subject, fits: Callable[[Document], Subject]) -> tuple[Subject, bool]:
        version = self._concerned(hook, subject)
        if version is None:
            return subject, False
        with _waiting():
            call = self._begun(hook, subject, version)
            answer = self._answered(call, mutates=True)
        if answer is None or answer.patch is None:
            return subject, True
        if subject.operation == DELETE:
            raise unpatchable(hook)
        sent = self._convert(subject.resource, dict(subject.new or {}), version) or {}
        made = patched(hook, sent, answer.patch)
        if same(made, sent):
            return subject, True
        return fits(self._convert(subject.resource, made, subject.resource.version) or {}), True

    def check(self, hooks: Iterable[Hook], subject: Subject) -> None:
        """Ask all validating webhooks that a write concerns, at the same time. Raises the error of the first."""
        concerned = [(hook, version) for hook in hooks if (version := self._concerned(hook, subject)) is not None]
        if not concerned:
            return
        with _waiting():
            calls = [self._begun(hook, subject, version) for hook, version in concerned]
            errors = []
            for call in calls:
                try:
                    self._answered(call, mutates=False)
                except StatusError as error:
                    errors.append(error)
        if errors:
            raise errors[0]

    def _concerned(self, hook: Hook, subject: Subject) -> str | None:
        """Return the version in which a webhook gets a write; None: it does not concern the webhook."""
        version = hook.match.version(subject)
        if version is None or not hook.conditions:
            return version
        request = request_of(subject, self._write, version=subject.resource.version, uid="")
        namespace = self._namespace(subject.namespace) if subject.resource.namespaced else None
        found = cel_expressions.matched(hook.digest, hook.conditions, seen(request, namespace))
        if "error" in found and hook.fails:
            raise undecided(subject.resource, subject.name, found["error"])
        return version if found.get("matches") else None

    def _begun(self, hook: Hook, subject: Subject, version: str) -> Call:
        uid = str(uuid.uuid4())
        request = request_of(subject, self._write, version=version, uid=uid)
        if version != subject.resource.version:
            request |= {
                field: self._convert(subject.resource, request[field], version) for field in ("object", "oldObject")
            }
        seconds = min(hook.seconds, max(self._ends - time.monotonic(), 0.0))
        url = f"{hook.url}?timeout={hook.seconds}s"
        sent = self._client.post(hook.name, url, review_of(request), bundle=hook.bundle, seconds=seconds)
        return Call(hook, uid, self._client.run(sent), seconds)

    def _answered(self, call: Call, *, mutates: bool) -> HookAnswer | None:
        """Return the answer of a webhook; None: it failed, and the write goes on. Raises the error of a denial."""
        hook = call.hook
        try:
            answer = answer_of(self._received(call), uid=call.uid, mutates=mutates)
        except Failed as error:
            if hook.fails:
                raise failed(hook, error) from error
            _note(f"{_OPEN}{hook.name}", str(error)[:1024])
            return None
        self.warnings += answer.warnings
        for key, value in answer.annotations.items():
            _note(f"{hook.name}/{key}", value)
        if not answer.allowed:
            raise refused(hook, answer.status)
        return answer

    def _received(self, call: Call) -> Any:
        try:
            return call.answer.result()
        except TimeoutError as error:
            raise Failed(f"failed to call webhook: no answer within {call.seconds:g} s") from error
        except FAILURES as error:
            raise Failed(f"failed to call webhook: {str(error)[:1024] or type(error).__name__}") from error


def _note(key: str, value: str) -> None:
    """Annotate the audit event of the present request."""
    trail = audit.requested()
    if trail is not None:
        trail.notes[key] = value


@lru_cache(maxsize=1)
def _turns() -> BoundedSemaphore:
    """Half of the threads that answer requests may wait for webhooks. The others answer what needs none."""
    return BoundedSemaphore(max(configured.API_THREADS // 2, 1))


@contextmanager
def _waiting() -> Any:
    """Wait for webhooks in this thread. Raises TooManyRequests if too many threads do so already."""
    turns = _turns()
    if not turns.acquire(blocking=False):
        raise TooManyRequests(
            "too many writes wait for admission webhooks; try again in a second, or set a shorter timeoutSeconds",
            retry_after_seconds=_RETRY_SECONDS,
        )
    try:
        yield
    finally:
        turns.release()


@lru_cache(maxsize=2)
def _client(settings: MemberSettings) -> WebhookClient:
    return WebhookClient(settings)
