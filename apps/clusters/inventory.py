"""The APIs and the capacity of a member, as read from its API: only the needed fields, checked for shape and size."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypeVar

import msgspec
from msgspec import Meta, Struct

from apps.clusters.response_reader import MEBIBYTE, TooMuch, encoded

VERSIONS = 1_000  # API versions of a member: each takes a request
RESOURCES = 20_000  # API resources of a member: all are stored in the status of its Cluster
RESOURCE_NAMES = 1_000  # names of resources (cpu, memory, …) that nodes offer, pods request and quotas limit
PACKED_BYTES = 64 * MEBIBYTE  # of all nodes, all pods and all quotas each, with only the needed fields

T = TypeVar("T")
Name = Annotated[str, Meta(max_length=400)]
Amounts = dict[Name, str | int | float]


class _Version(Struct):
    groupVersion: Name  # the field's name on the wire


class _Group(Struct):
    versions: list[_Version] | None = None


class _Groups(Struct):
    groups: list[_Group] | None = None


class _Resource(Struct):
    name: Name
    kind: Name


class _Resources(Struct):
    resources: list[_Resource] | None = None


class _Responding(Struct):
    kind: Name


class _AggregatedResource(Struct, rename="camel"):
    resource: Name
    response_kind: _Responding | None = None


class _AggregatedVersion(Struct):
    version: Name
    resources: list[_AggregatedResource] | None = None
    freshness: str = ""


class _OptionallyNamed(Struct):
    name: Name = ""


class _AggregatedGroup(Struct):
    metadata: _OptionallyNamed = msgspec.field(default_factory=_OptionallyNamed)
    versions: list[_AggregatedVersion] | None = None


class _AggregatedGroups(Struct):
    items: list[_AggregatedGroup] | None = None


class _Named(Struct, omit_defaults=True):
    name: Name


class _Condition(Struct, omit_defaults=True):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, omit_defaults=True):
    allocatable: Amounts | None = None
    conditions: list[_Condition] | None = None


class _Taint(Struct, omit_defaults=True):
    key: str = ""
    effect: str = ""
    value: str | None = None


class _NodeSpec(Struct, omit_defaults=True):
    unschedulable: bool | None = None


class _TaintedSpec(_NodeSpec, omit_defaults=True):
    taints: list[_Taint] | None = None


class _Labelled(_Named, omit_defaults=True):
    labels: dict[str, str] | None = None


class _Node(Struct, omit_defaults=True):
    metadata: _Named
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


class _WholeNode(_Node, omit_defaults=True):
    """A node with what decides which pods it takes."""

    metadata: _Labelled
    spec: _TaintedSpec = msgspec.field(default_factory=_TaintedSpec)


class _Requirements(Struct, omit_defaults=True):
    requests: Amounts | None = None


class _Container(Struct, omit_defaults=True, rename="camel"):
    resources: _Requirements | None = None
    restart_policy: str | None = None


class _PodSpec(Struct, omit_defaults=True, rename="camel"):
    node_name: str = ""
    containers: list[_Container] | None = None
    init_containers: list[_Container] | None = None
    overhead: Amounts | None = None


class _PodStatus(Struct, omit_defaults=True):
    phase: str = ""


class _Pod(Struct, omit_defaults=True):
    spec: _PodSpec = msgspec.field(default_factory=_PodSpec)
    status: _PodStatus = msgspec.field(default_factory=_PodStatus)


class _Placed(_Named, omit_defaults=True):
    namespace: str = ""


class _Scope(Struct, omit_defaults=True, rename="camel"):
    scope_name: str
    operator: str = ""
    values: list[str] | None = None


class _ScopeSelector(Struct, omit_defaults=True, rename="camel"):
    match_expressions: list[_Scope] | None = None


class _QuotaSpec(Struct, omit_defaults=True, rename="camel"):
    scopes: list[str] | None = None
    scope_selector: _ScopeSelector | None = None


class _QuotaStatus(Struct, omit_defaults=True):
    hard: Amounts | None = None
    used: Amounts | None = None


class _Quota(Struct, omit_defaults=True):
    metadata: _Placed
    spec: _QuotaSpec = msgspec.field(default_factory=_QuotaSpec)
    status: _QuotaStatus = msgspec.field(default_factory=_QuotaStatus)


_Listed = _Node | _Pod | _Quota
_KINDS: Final[Mapping[str, type[_Listed]]] = {"nodes": _Node, "pods": _Pod, "resourcequotas": _Quota}


def versions(body: Any) -> list[str]:
    """Return the API versions in a response of /apis. Raises TooMuch, and ValueError if the response is malformed."""
    names = [version.groupVersion for group in _as(body, _Groups).groups or () for version in group.versions or ()]
    if len(names) > VERSIONS:
        raise TooMuch(f"the member has more than {VERSIONS:,} API versions")
    return names


def resources(body: Any) -> list[dict[str, str]]:
    """Return the resources of an API version, without subresources. Raises ValueError if the response is malformed."""
    listed = _as(body, _Resources).resources or ()
    return [{"name": resource.name, "kind": resource.kind} for resource in listed if "/" not in resource.name]


def is_group_list(body: Any) -> bool:
    """Test whether a response of /apis is a list of API groups, and not the page of a proxy."""
    return bool(body.get("kind") == "APIGroupList")


def is_aggregated(body: Any) -> bool:
    """Test whether a response of /apis has the resources of all versions (aggregated discovery)."""
    return bool(body.get("kind") == "APIGroupDiscoveryList")


def aggregated(core: Any, groups: Any) -> list[dict[str, Any]]:
    """Return [{groupVersion, resources: [{name, kind}]}] from the aggregated responses of /api and /apis.

    `resources` None: the version is marked as stale, because its server does not answer.
    Raises TooMuch, and ValueError if a response is malformed, or /api has no version v1.
    """
    found = [
        {"groupVersion": f"{group.metadata.name}/{one.version}".lstrip("/"), "resources": _current(one)}
        for body in (core, groups)
        for group in _as(body, _AggregatedGroups).items or ()
        for one in group.versions or ()
    ]
    if len(found) > VERSIONS:
        raise TooMuch(f"the member has more than {VERSIONS:,} API versions")
    if not any(one["groupVersion"] == "v1" and one["resources"] is not None for one in found):
        raise ValueError("the answer of /api has no version v1")
    check_number(found)
    return found


def _current(version: _AggregatedVersion) -> list[dict[str, str]] | None:
    """Return the resources of a version; None: its server does not answer, and they may be outdated."""
    if version.freshness == "Stale":
        return None
    return [
        {"name": one.resource, "kind": one.response_kind.kind}
        for one in version.resources or ()
        if one.response_kind is not None and one.response_kind.kind
    ]


def check_number(apis: list[dict[str, Any]]) -> None:
    """Raise TooMuch if a member has more API resources than are stored."""
    if sum(len(api["resources"] or ()) for api in apis) > RESOURCES:
        raise TooMuch(f"the member has more than {RESOURCES:,} API resources")


def packer(of: str, *, whole_nodes: bool = False) -> Callable[[dict[str, Any]], bytes]:
    """Return a function that reduces each object of a list of a member to the needed fields, as JSON.

    `of`: "nodes", "pods" or "resourcequotas". `whole_nodes`: labels and taints of nodes are needed.
    The function raises TooMuch if all of them together are too large, and ValueError if one is malformed.
    """
    kind = _WholeNode if whole_nodes and of == "nodes" else _KINDS[of]
    names, size = set[str](), 0

    def pack(item: dict[str, Any]) -> bytes:
        nonlocal size
        needed = _as(item, kind)
        names.update(_resource_names(needed))
        if len(names) > RESOURCE_NAMES:
            raise TooMuch(f"{of} name more than {RESOURCE_NAMES:,} kinds of resources")
        text = encoded(msgspec.to_builtins(needed))
        size += len(text)
        if size > PACKED_BYTES:
            raise TooMuch(f"{of} take more than {PACKED_BYTES // MEBIBYTE} MiB")
        return text

    return pack


def _resource_names(item: _Listed) -> set[str]:
    """Return the names of the resources that a node offers, a pod requests or a quota limits."""
    if isinstance(item, _Node):
        return set(item.status.allocatable or ())
    if isinstance(item, _Quota):
        return set(item.status.hard or ())
    containers = (*(item.spec.containers or ()), *(item.spec.init_containers or ()))
    requested = {
        name
        for container in containers
        if container.resources is not None
        for name in container.resources.requests or ()
    }
    return requested | set(item.spec.overhead or ())


def _as(body: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the answer is malformed: {error}") from None
