"""What is wrong with an access review or a TokenRequest, as a kube-apiserver says it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from controlplane.apimachinery.causes import forbidden, invalid, required
from controlplane.apimachinery.errors import BadRequest, Cause
from controlplane.apimachinery.selectors import DOES_NOT_EXIST, EXISTS, IN, NOT_IN, label_key_errors, label_value_errors

Document = dict[str, Any]

RESOURCE, PATH, USER = "spec.resourceAttributes", "spec.nonResourceAttributes", "spec.user"
OF_OTHERS = frozenset(("SubjectAccessReview", "LocalSubjectAccessReview"))
ABOUT_ACCESS = OF_OTHERS | {"SelfSubjectAccessReview"}


def check_place(document: Document, kind: str, namespace: str) -> None:
    """Raise BadRequest if a body is for another kind or namespace than its URL."""
    sent = document.get("kind") or kind
    if sent != kind:
        version = str(document.get("apiVersion", "")).rpartition("/")[2]
        raise BadRequest(f'{sent} in version "{version}" cannot be handled as a {kind}')
    metadata = document.get("metadata")
    written = metadata.get("namespace") if isinstance(metadata, dict) else None
    if written and written != namespace:
        raise BadRequest("the namespace of the provided object does not match the namespace sent on the request")


def causes_of_review(review: Document, namespace: str) -> list[Cause]:
    """Return what is wrong with an access review of the right types. `namespace`: that of its URL."""
    kind, spec = review["kind"], review.get("spec") or {}
    if kind not in ABOUT_ACCESS:
        return []
    found: list[Cause] = []
    resource, path = spec.get("resourceAttributes"), spec.get("nonResourceAttributes")
    if resource is not None and path is not None:
        found.append(invalid(PATH, path, "cannot be specified in combination with resourceAttributes"))
    elif resource is None and path is None:
        rule = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
        found.append(invalid(RESOURCE, None, rule))
    for field in ("fieldSelector", "labelSelector"):
        if (selector := (resource or {}).get(field)) is not None:
            found += _selector(selector, f"{RESOURCE}.{field}")
    if kind in OF_OTHERS and not spec.get("user") and not spec.get("groups"):
        found.append(invalid(USER, spec.get("user") or "", "at least one of user or group must be specified"))
    if namespace and path is not None:
        found.append(invalid(PATH, path, "disallowed on this kind of request"))
    if namespace and resource is not None and resource.get("namespace") != namespace:
        found.append(invalid(f"{RESOURCE}.namespace", resource.get("namespace") or "", "must match metadata.namespace"))
    return found + _metadata(review.get("metadata") or {})


def _metadata(metadata: Document) -> list[Cause]:
    written = {name: value for name, value in metadata.items() if value and name not in ("namespace", "managedFields")}
    return [invalid("metadata", written, "must be empty")] if written else []


def _selector(selector: Document, at: str) -> Iterator[Cause]:
    raw, requirements = selector.get("rawSelector") or "", selector.get("requirements") or []
    if raw and requirements:
        yield invalid(f"{at}.rawSelector", raw, "may not specified at the same time as requirements")
    elif not raw and not requirements:
        rule = f"when {at} is specified, requirements or rawSelector is required"
        yield required(f"{at}.requirements", rule)
    of_labels = at.endswith("labelSelector")
    for index, requirement in enumerate(requirements):
        where = f"{at}.requirements[{index}]"
        yield from _label(requirement, where) if of_labels else _key(requirement, where)
        yield from _values(requirement, where)


def _key(requirement: Document, at: str) -> Iterator[Cause]:
    if not requirement.get("key"):
        yield required(f"{at}.key", "must be specified")


def _label(requirement: Document, at: str) -> Iterator[Cause]:
    key = requirement.get("key") or ""
    yield from (invalid(f"{at}.key", key, wrong) for wrong in label_key_errors(key))
    for index, value in enumerate(requirement.get("values") or ()):
        yield from (invalid(f"{at}.values[{index}]", value, wrong) for wrong in label_value_errors(value))


def _values(requirement: Document, at: str) -> Iterator[Cause]:
    """Yield the cause against values that do not fit the operator. Requirements with other operators are ignored."""
    operator, values = requirement.get("operator"), requirement.get("values")
    if operator in (IN, NOT_IN) and not values:
        yield required(f"{at}.values", f"must be specified when `operator` is '{IN}' or '{NOT_IN}'")
    elif operator in (EXISTS, DOES_NOT_EXIST) and values:
        yield forbidden(f"{at}.values", f"may not be specified when `operator` is '{EXISTS}' or '{DOES_NOT_EXIST}'")
