"""The request of an AdmissionReview (admission.k8s.io/v1): what webhooks and expressions learn about a write."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

from controlplane.admission.matching import CREATE, DELETE, UPDATE, Subject
from controlplane.apimachinery.meta import Object
from controlplane.engine.decision import Delete, Put
from controlplane.wire.resource import SUBRESOURCES, Resource

Document = dict[str, Any]

_OPTIONS: Final = {CREATE: "CreateOptions", UPDATE: "UpdateOptions", DELETE: "DeleteOptions"}


class Write(NamedTuple):
    """Who writes, and how. `user`: as authentication.k8s.io/v1 describes users; `options`: of the request."""

    user: Mapping[str, Any]
    dry_run: bool
    options: Mapping[str, Any] = {}


def operation_of(change: Put | Delete) -> str:
    """Return CREATE, UPDATE or DELETE for a change.

    The write with which an object begins to wait for its finalizers is DELETE, and later writes are UPDATE.
    """
    if isinstance(change, Delete):
        return DELETE
    if change.old is None:
        return CREATE
    begins = _is_ending(change.new) and not _is_ending(change.old)
    return DELETE if begins else UPDATE


def _is_ending(obj: Object) -> bool:
    return obj.metadata.deletion_timestamp is not None


def request_of(subject: Subject, write: Write, *, version: str, uid: str) -> Document:
    """Return the request of a write. `version`: the version of the resource in which it is sent."""
    resource = subject.resource
    made: Document = {
        "uid": uid,
        "kind": _kind(resource, subject.subresource, version),
        "resource": _resource(resource, version),
        "requestKind": _kind(resource, subject.subresource, resource.version),
        "requestResource": _resource(resource, resource.version),
        "name": subject.name,
        "operation": subject.operation,
        "userInfo": dict(write.user),
        "object": subject.new,
        "oldObject": subject.old,
        "dryRun": write.dry_run,
        "options": {
            "kind": _OPTIONS[subject.operation],
            "apiVersion": "meta.k8s.io/v1",
            **write.options,
            **({"dryRun": ["All"]} if write.dry_run else {}),
        },
    }
    if subject.namespace:
        made["namespace"] = subject.namespace
    if subject.subresource:
        made |= {"subResource": subject.subresource, "requestSubResource": subject.subresource}
    return made


def _kind(resource: Resource, subresource: str, version: str) -> Document:
    known = SUBRESOURCES.get(subresource)
    if known is not None and known.kind is not None:
        return dict(zip(("group", "version", "kind"), known.kind, strict=True))
    return {"group": resource.group, "version": version, "kind": resource.kind}


def _resource(resource: Resource, version: str) -> Document:
    return {"group": resource.group, "version": version, "resource": resource.plural}


def seen(request: Mapping[str, Any], namespace: Mapping[str, Any] | None) -> Document:
    """Return the variables of expressions: object, oldObject, request and namespaceObject.

    `namespace`: that of the object, as a document; None: the object is cluster-scoped.
    """
    hidden = ("uid", "object", "oldObject")
    shown = {field: value for field, value in request.items() if field not in hidden}
    return {
        "object": request["object"],
        "oldObject": request["oldObject"],
        "request": shown,
        "namespaceObject": namespace,
    }
