"""Admission webhooks of users: when they are called, and what their answers mean [admission-webhooks]."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple

import msgspec
import orjson

from controlplane.admission.matching import Match, match_of
from controlplane.apimachinery.errors import Cause, Forbidden, StatusError, qualified
from controlplane.wire.patch import json_patch
from controlplane.wire.resource import Resource

Document = dict[str, Any]

API_VERSION, KIND = "admission.k8s.io/v1", "AdmissionReview"
FAIL: Final = "Fail"
DEFAULT_SECONDS: Final = 10
_BAD_REQUEST: Final = 400
_JSON_PATCH: Final = "JSONPatch"


class Hook(msgspec.Struct, frozen=True):
    """A webhook of a configuration. `place`: its index in the order in which webhooks are called.

    conditions: its matchConditions, and `digest` their name. `again`: it is called again after a later change.
    """

    name: str
    configuration: str
    place: int
    url: str
    bundle: str
    match: Match
    seconds: int
    fails: bool
    again: bool
    conditions: tuple[Document, ...]
    digest: str

    def __hash__(self) -> int:
        return hash((self.configuration, self.place))


class Failed(ValueError):
    """A webhook did not answer, or its answer cannot be used. With failurePolicy Ignore the write goes on."""


class HookAnswer(NamedTuple):
    """The answer of a webhook. `status`: why it denies the write; `patch`: the operations on the object."""

    allowed: bool
    status: Mapping[str, Any]
    patch: bytes | None = None
    warnings: tuple[str, ...] = ()
    annotations: Mapping[str, str] = {}


def hooks_of(configurations: Iterable[Document]) -> tuple[Hook, ...]:
    """Return the webhooks of configurations that this API can call, in the order of the configurations' names.

    A webhook that is a Service is not among them: this control plane has no Services of its own [webhook-services].
    """
    return tuple(
        hook for place, (name, stated) in enumerate(_stated(configurations)) if (hook := _hook(name, stated, place))
    )


def _stated(configurations: Iterable[Document]) -> Iterator[tuple[str, Document]]:
    for configuration in sorted(configurations, key=lambda one: str(one["metadata"]["name"])):
        for stated in configuration.get("webhooks") or ():
            yield configuration["metadata"]["name"], stated


def _hook(configuration: str, stated: Document, place: int) -> Hook | None:
    client, conditions = stated["clientConfig"], tuple(stated.get("matchConditions") or ())
    if not client.get("url"):
        return None
    return Hook(
        stated["name"],
        configuration,
        place,
        client["url"],
        client.get("caBundle") or "",
        match_of(stated, rules="rules"),
        stated.get("timeoutSeconds") or DEFAULT_SECONDS,
        (stated.get("failurePolicy") or FAIL) == FAIL,
        stated.get("reinvocationPolicy") == "IfNeeded",
        conditions,
        hashlib.sha256(msgspec.json.encode(conditions)).hexdigest() if conditions else "",
    )


def review_of(request: Document) -> bytes:
    """Return the AdmissionReview that is sent."""
    return orjson.dumps({"kind": KIND, "apiVersion": API_VERSION, "request": request})


def answer_of(review: Any, *, uid: str, mutates: bool) -> HookAnswer:
    """Return the answer in a review. Raises Failed if it cannot be used."""
    if not isinstance(review, dict) or (review.get("apiVersion"), review.get("kind")) != (API_VERSION, KIND):
        found = f"{review.get('apiVersion')}, Kind={review.get('kind')}" if isinstance(review, dict) else "no object"
        raise Failed(f"failed to call webhook: expected {API_VERSION}, Kind={KIND}, got {found}")
    response = review.get("response")
    if not isinstance(response, dict):
        raise Failed("received invalid webhook response: webhook response was absent")
    if response.get("uid") != uid:
        raise Failed(f'received invalid webhook response: expected response.uid="{uid}", got "{response.get("uid")}"')
    patch = _patch(response, mutates)
    warnings, notes, status = (response.get(name) for name in ("warnings", "auditAnnotations", "status"))
    return HookAnswer(
        response.get("allowed") is True,
        status if isinstance(status, dict) else {},
        patch,
        tuple(str(text) for text in warnings) if isinstance(warnings, list) else (),
        {str(key): str(value) for key, value in notes.items()} if isinstance(notes, dict) else {},
    )


def _patch(response: Document, mutates: bool) -> bytes | None:
    text, kind = response.get("patch"), response.get("patchType")
    bad = "received invalid webhook response: "
    if not mutates:
        if text or kind:
            field = "patch" if text else "patchType"
            raise Failed(f"{bad}validating webhook may not return response.{field}")
        return None
    if text and not kind:
        raise Failed(f"{bad}webhook returned response.patch but not response.patchType")
    if kind and not text:
        raise Failed(f"{bad}webhook returned response.patchType but not response.patch")
    if not text:
        return None
    if kind != _JSON_PATCH:
        raise Failed(f'unsupported patch type "{kind}"')
    try:
        found = base64.b64decode(text, validate=True)
        orjson.loads(found)
    except (binascii.Error, TypeError, ValueError) as error:
        raise Failed(f"received undecodable patch in webhook response: {error}") from error
    return found


def patched(hook: Hook, document: Document, patch: bytes) -> Document:
    """Return an object after the patch of a webhook. Raises InternalError, whatever the failurePolicy is."""
    try:
        made: Document = json_patch(document, orjson.loads(patch))
    except StatusError as error:
        raise internal(f'the patch of admission webhook "{hook.name}" does not apply: {error.message}') from error
    if not isinstance(made, dict) or not isinstance(made.get("metadata"), dict):
        raise internal(f'the patch of admission webhook "{hook.name}" leaves no object with metadata')
    return made


def refused(hook: Hook, status: Mapping[str, Any]) -> StatusError:
    """Return the error for a write that a webhook denies: with its code from 400 on, its reason and its message."""
    said, reason, code = status.get("message"), status.get("reason"), status.get("code")
    ending = f": {said or reason}" if said or reason else " without explanation"
    error = StatusError(f'admission webhook "{hook.name}" denied the request{ending}')
    error.code = code if isinstance(code, int) and _BAD_REQUEST <= code < 600 else _BAD_REQUEST
    error.reason = str(reason or "")
    return error


def failed(hook: Hook, error: Failed) -> StatusError:
    """Return the error for a write whose webhook failed, with failurePolicy Fail."""
    return internal(f'failed calling webhook "{hook.name}": {error}')


def internal(why: str) -> StatusError:
    return StatusError(f"Internal error occurred: {why}", causes=[Cause(message=why)])


def undecided(resource: Resource, name: str, why: str) -> Forbidden:
    """Return the error for a write of which it is not known whether a webhook concerns it."""
    message = f'{qualified(resource.plural, resource.group)} "{name}" is forbidden: {why}'
    return Forbidden(message, kind=resource.plural, group=resource.group, name=name)


def unpatchable(hook: Hook) -> StatusError:
    """Return the error for a patch in the answer about a deletion."""
    return internal(
        f'admission webhook "{hook.name}" attempted to modify the object, which is not supported for this operation'
    )
