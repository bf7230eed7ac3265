"""The rules for metadata of all kinds: names, namespaces, labels, annotations, finalizers and owner references."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator

from controlplane.apimachinery.causes import invalid, required
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.apimachinery.selectors import (
    dns1123_label_errors,
    dns1123_subdomain_errors,
    label_key_errors,
    label_value_errors,
)
from controlplane.wire.resource import Resource

MAX_ANNOTATIONS = 256 * 1024
"""Maximum bytes of all annotations of an object together."""

MAX_NAME = 253
"""Maximum characters of a name, also of a name that need not be a DNS name."""

_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_RBAC = "rbac.authorization.k8s.io"
_LABEL_KINDS = frozenset({"Namespace"})
# Kinds whose names need only fit into a URL.
_FREELY_NAMED = frozenset({"certificates.k8s.io/CertificateSigningRequest", "policy/PodDisruptionBudget"})
# Kinds that check their names themselves.
_OWN_RULES = frozenset({"cluster.karmada.io/Cluster"})


def metadata_causes(resource: Resource, metadata: ObjectMeta) -> Iterator[Cause]:
    """Yield a cause for every rule that an object's metadata breaks."""
    yield from _name(resource, metadata)
    if resource.namespaced:
        for rule in dns1123_label_errors(metadata.namespace):
            yield invalid("metadata.namespace", metadata.namespace, rule)
    yield from label_causes(metadata.labels, "metadata.labels")
    yield from _annotations(metadata.annotations)
    for finalizer in metadata.finalizers:
        for rule in label_key_errors(finalizer):
            yield invalid("metadata.finalizers", finalizer, rule)
    for index, owner in enumerate(metadata.owner_references):
        for field, value in (
            ("apiVersion", owner.api_version),
            ("kind", owner.kind),
            ("name", owner.name),
            ("uid", owner.uid),
        ):
            if not value:
                yield required(f"metadata.ownerReferences[{index}].{field}")


def label_causes(labels: dict[str, str], path: str) -> Iterator[Cause]:
    """Yield a cause for every invalid key or value of labels; `path` is the field that holds them."""
    for key, value in labels.items():
        for rule in label_key_errors(key):
            yield invalid(path, key, rule)
        for rule in label_value_errors(value):
            yield invalid(path, value, rule)


def _annotations(annotations: dict[str, str]) -> Iterator[Cause]:
    for key in annotations:
        for rule in label_key_errors(key.lower()):
            yield invalid("metadata.annotations", key, rule)
    size = size_of(annotations)
    if size > MAX_ANNOTATIONS:
        yield invalid(
            "metadata.annotations", size, f"all annotations together must have at most {MAX_ANNOTATIONS} bytes"
        )


def size_of(annotations: dict[str, str]) -> int:
    """Return how many bytes annotations have together."""
    return sum(len(key.encode()) + len(value.encode()) for key, value in annotations.items())


def _name(resource: Resource, metadata: ObjectMeta) -> Iterator[Cause]:
    if not metadata.name:
        yield required("metadata.name", "name or generateName is required")
    elif resource.key not in _OWN_RULES:
        for rule in name_rule(resource)(metadata.name):
            yield invalid("metadata.name", metadata.name, rule)


def name_rule(resource: Resource) -> Callable[[str], list[str]]:
    """Return the function that returns what is wrong with a name of this kind."""
    if resource.group == _RBAC or resource.key in _FREELY_NAMED:
        return _path_segment_errors
    if resource.group == "" and resource.kind == "Service":
        return _dns1035_errors
    if resource.group == "" and resource.kind in _LABEL_KINDS:
        return dns1123_label_errors
    return dns1123_subdomain_errors


def _path_segment_errors(name: str) -> list[str]:
    if name in (".", ".."):
        return [f"may not be {name!r}"]
    errors = [f"may not contain {sign!r}" for sign in "/%" if sign in name]
    return [*errors, f"must be no more than {MAX_NAME} characters"] if len(name) > MAX_NAME else errors


def _dns1035_errors(name: str) -> list[str]:
    errors = dns1123_label_errors(name)
    if not errors and not _DNS_1035.fullmatch(name):
        errors.append("must start with a letter: it becomes a DNS name of its own")
    return errors
