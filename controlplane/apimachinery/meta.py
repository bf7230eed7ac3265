"""Types that all objects share: references, metadata, conditions, and the base class of objects."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from operator import is_not
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.as_written import AsWritten
from controlplane.apimachinery.equality import same

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A frozen value. In documents its fields have camelCase names, and a field with its default value is left out.

    Use `UserStruct` for values that users write. Fields are encoded in the order of their declaration, those of base
    classes first.

    The garbage collector does not track these values (`gc=False`), because a process holds hundreds of thousands of
    them. This is safe because a frozen value only refers to older values, so no cycle arises. Never put a mutable
    value into a field that could later refer back to it.
    """


class UserStruct(Struct, frozen=True, metaclass=AsWritten):
    """A part of an object that users write. The stored document keeps every value they wrote; see `AsWritten`."""


Int32 = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32"})]
"""A number with the range that Kubernetes gives it. Sums of such numbers fit into the integers of PostgreSQL."""

QuantityText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "quantity"})]
"""A resource quantity as text: "500m", "2Gi"."""


class Ref(NamedTuple):
    """A reference to an object: the key of its kind ("apps/Deployment", "Secret"), its namespace and its name. The
    namespace of a cluster-scoped object is ""."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}:{place}"

    @classmethod
    @lru_cache(maxsize=4096)  # rows name their binding by text, and several controllers read the same rows
    def parse(cls, text: str) -> Ref:
        """Return the reference that `str()` wrote. Raises ValueError for a text without a kind."""
        kind, colon, place = text.partition(":")
        if not colon:
            raise ValueError(f'"{text}" is not a reference; write Kind:name or group/Kind:namespace/name')
        namespace, slash, name = place.partition("/")
        return cls(kind, namespace, name) if slash else cls(kind, "", place)


@lru_cache(maxsize=4096)  # called for every reference; there are few kinds
def kind_key(api_version: str, kind: str) -> str:
    """Return the key of a kind, which has no version: ("apps/v1", "Deployment") → "apps/Deployment"."""
    group, slash, _version = api_version.partition("/")
    return f"{group}/{kind}" if slash else kind


@lru_cache(maxsize=256)  # all objects of a batch get the same time
def to_seconds(moment: datetime) -> datetime:
    """Return a time as Kubernetes stores it: in UTC, without fractions of a second."""
    return moment.astimezone(UTC).replace(microsecond=0)


def compact(value: T) -> T:
    """Return an equal value in which empty values that a user wrote are the defaults, which the encoder leaves out."""
    if isinstance(value, tuple):
        items = tuple(map(compact, value))
        return items if any(map(is_not, items, value)) else value  # type: ignore[return-value]
    if not isinstance(value, msgspec.Struct):
        return value
    fields, defaults = value.__struct_fields__, value.__struct_defaults__
    optional = dict(zip(fields[len(fields) - len(defaults) :], defaults, strict=True))
    changed = {}
    for name in fields:
        held = getattr(value, name)
        new = optional[name] if name in optional and held == optional[name] else compact(held)
        if new is not held:
            changed[name] = new
    return replace(value, **changed) if changed else value


class OwnerReference(Struct, frozen=True):
    api_version: str
    kind: str
    name: str
    uid: str
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ObjectMeta(Struct, frozen=True):
    """The metadata of an object. `resource_version` is the first field, because stores insert it into encoded text
    (`kind.encode`)."""

    resource_version: str = ""
    name: str = ""
    generate_name: str = ""
    namespace: str = ""
    uid: str = ""
    generation: int = 0
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None  # None: not being deleted
    deletion_grace_period_seconds: int | None = None
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()
    managed_fields: tuple[dict[str, Any], ...] = ()


class Condition(Struct, frozen=True):
    """A condition of a status, as metav1.Condition. `last_transition_time` changes only with `status`."""

    type: str
    status: str  # True, False, Unknown
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


def condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """Return the condition of a type; None: no such condition was reported."""
    for candidate in conditions:  # called thousands of times a second, so without a generator
        if candidate.type == type_:
            return candidate
    return None


def with_condition(conditions: tuple[Condition, ...], new: Condition, *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with `new` added or replaced. Its transition time is `now` if its status changed."""
    old = condition(conditions, new.type)
    since = old.last_transition_time if old is not None and old.status == new.status else to_seconds(now)
    stamped = replace(new, last_transition_time=since)
    if stamped == old:
        return conditions
    if old is None:
        return (*conditions, stamped)
    return tuple(stamped if item.type == new.type else item for item in conditions)


class Object(Struct, frozen=True):
    """What every stored object has. Subclasses add `spec` and `status`, or `content` (`kinds.template.Template`)."""

    api_version: str
    kind: str
    metadata: ObjectMeta = ObjectMeta()

    @property
    def ref(self) -> Ref:
        metadata = self.metadata  # read many times per change, so made without calling Ref()
        return tuple.__new__(Ref, (kind_key(self.api_version, self.kind), metadata.namespace, metadata.name))

    def with_meta(self, **changes: Any) -> Self:
        """Return the object with changed metadata fields; the same object if nothing changes."""
        metadata = replace(self.metadata, **changes)
        return self if metadata == self.metadata else replace(self, metadata=metadata)

    def with_spec(self, **changes: Any) -> Self:
        """Return the object with changed spec fields and its generation raised; the same object if nothing changes."""
        old: msgspec.Struct = self.spec  # type: ignore[attr-defined]  # subclasses that are changed in this way have it
        spec = replace(old, **changes)
        if same(spec, old):
            return self
        return replace(self, spec=spec, metadata=replace(self.metadata, generation=self.metadata.generation + 1))

    def with_status(self, **changes: Any) -> Self:
        """Return the object with changed status fields; the same object if nothing changes."""
        old: msgspec.Struct = self.status  # type: ignore[attr-defined]  # as in with_spec
        status = replace(old, **changes)
        return self if same(status, old) else replace(self, status=status)
