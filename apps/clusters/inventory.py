"""What is read of a member to know its APIs and its room: checked for shape and size, everything else left out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import Meta, Struct

from apps.clusters.response_reader import MEBIBYTE, TooMuch, encoded

VERSIONS = 1_000  # API versions of a member: each is a request
RESOURCES = 20_000  # API resources of a member: all are kept with its Cluster
KINDS_OF_ROOM = 1_000  # names of resources that nodes offer and pods ask for
PACKED_BYTES = 64 * MEBIBYTE  # of nodes, and of pods, without what is not needed of them

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


class _Named(Struct, omit_defaults=True):
    name: Name


class _Condition(Struct, omit_defaults=True):
    type: str = ""
    status: str = ""


class _NodeStatus(Struct, omit_defaults=True):
    allocatable: Amounts | None = None
    conditions: list[_Condition] | None = None


class _NodeSpec(Struct, omit_defaults=True):
    unschedulable: bool | None = None


class _Node(Struct, omit_defaults=True):
    metadata: _Named
    spec: _NodeSpec = msgspec.field(default_factory=_NodeSpec)
    status: _NodeStatus = msgspec.field(default_factory=_NodeStatus)


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


def versions(body: Any) -> list[str]:
    """Return the API versions that /apis names. Raises TooMuch, ValueError where it has another shape."""
    found = [one.groupVersion for group in _as(body, _Groups).groups or () for one in group.versions or ()]
    if len(found) > VERSIONS:
        raise TooMuch(f"the member names more than {VERSIONS:,} API versions")
    return found


def resources(body: Any) -> list[dict[str, str]]:
    """Return the resources of an API version, without subresources. Raises ValueError where it has another shape."""
    found = _as(body, _Resources).resources or ()
    return [{"name": one.name, "kind": one.kind} for one in found if "/" not in one.name]


def check_number(apis: list[dict[str, Any]]) -> None:
    """Raise TooMuch where a member has more resources than are kept."""
    if sum(len(one["resources"] or ()) for one in apis) > RESOURCES:
        raise TooMuch(f"the member names more than {RESOURCES:,} API resources")


def packer(of: str) -> Callable[[dict[str, Any]], bytes]:
    """Return what makes of each of the "nodes" or "pods" the little that is needed, as JSON.

    It raises TooMuch where all of them together are too large, and ValueError where one has another shape.
    """
    kind: type[_Node] | type[_Pod] = _Node if of == "nodes" else _Pod
    names, size = set[str](), 0

    def pack(item: dict[str, Any]) -> bytes:
        nonlocal size
        known = _as(item, kind)
        names.update(_names(known))
        if len(names) > KINDS_OF_ROOM:
            raise TooMuch(f"{of} name more than {KINDS_OF_ROOM:,} kinds of resources")
        text = encoded(msgspec.to_builtins(known))
        size += len(text)
        if size > PACKED_BYTES:
            raise TooMuch(f"{of} take more than {PACKED_BYTES // MEBIBYTE} MiB")
        return text

    return pack


def _names(item: _Node | _Pod) -> set[str]:
    if isinstance(item, _Node):
        return set(item.status.allocatable or ())
    containers = (*(item.spec.containers or ()), *(item.spec.init_containers or ()))
    asked = {name for one in containers if one.resources is not None for name in one.resources.requests or ()}
    return asked | set(item.spec.overhead or ())


def _as(body: Any, kind: type[T]) -> T:
    try:
        return msgspec.convert(body, kind)
    except msgspec.ValidationError as error:
        raise ValueError(f"the answer has another shape: {error}") from None
