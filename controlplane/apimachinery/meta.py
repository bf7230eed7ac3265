"""The words every object is said in: references, metadata, conditions."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import lru_cache
from operator import is_not
from typing import Annotated, Any, NamedTuple, Self, TypeVar

import msgspec
from msgspec.structs import replace

from controlplane.apimachinery.as_written import AsWritten

T = TypeVar("T")


class Struct(msgspec.Struct, frozen=True, rename="camel", omit_defaults=True, gc=False):
    """A frozen value whose fields are spelled the Kubernetes way on the wire; absent means the default.

    A value equal to its default is left out of the document. Derive from `UserStruct` where users write the value.

    Fields keep their order on the wire, a base class's first: required ones stand before those with defaults.

    The garbage collector leaves these values alone (`gc=False`), which a process with a hundred thousand of them feels:
    a frozen value is made of what was there before it, so none is part of a cycle. Keep nothing in one that may come to
    hold it.
    """


class UserStruct(Struct, frozen=True, metaclass=AsWritten):
    """A part of an object that users write. The stored document keeps every value they wrote; see `AsWritten`."""


Int32 = Annotated[int, msgspec.Meta(extra_json_schema={"format": "int32"})]
"""A number of things or a rank, as wide as Kubernetes has it: sums of them fit what PostgreSQL counts with."""

QuantityText = Annotated[str, msgspec.Meta(extra_json_schema={"format": "quantity"})]
"""An amount of a resource as people write it: "500m", "2Gi"."""


class Ref(NamedTuple):
    """Name of one object: its kind's key ("apps/Deployment", "Secret"), namespace ("": cluster-scoped), name."""

    kind: str
    namespace: str
    name: str

    def __str__(self) -> str:
        place = f"{self.namespace}/{self.name}" if self.namespace else self.name
        return f"{self.kind}:{place}"

    @classmethod
    def parse(cls, text: str) -> Ref:
        """Return the reference that `str()` wrote. Raises ValueError where the text has no kind."""
        kind, colon, place = text.partition(":")
        if not colon:
            raise ValueError(f'"{text}" is not a reference; write Kind:name or group/Kind:namespace/name')
        namespace, slash, name = place.partition("/")
        return cls(kind, namespace, name) if slash else cls(kind, "", place)


@lru_cache(maxsize=4096)  # every look at an object's ref asks; there are few kinds
def kind_key(api_version: str, kind: str) -> str:
    """Return the key of a kind whatever its version: ("apps/v1", "Deployment") -> "apps/Deployment"."""
    group, slash, _version = api_version.partition("/")
    return f"{group}/{kind}" if slash else kind


@lru_cache(maxsize=256)  # a batch stamps everything it makes with one moment
def to_seconds(moment: datetime) -> datetime:
    """Return the moment as Kubernetes keeps times: UTC, whole seconds."""
    return moment.astimezone(UTC).replace(microsecond=0)


def compact(value: T) -> T:
    """Return the value without the empty values that a user wrote: equal to it, and encoded as if they were absent."""
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
    """metadata of an object. `resource_version` stays first: stores splice it into encoded text (see `kind.encode`)."""

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
    """A condition of a status, as metav1.Condition; `last_transition_time` moves only when `status` does."""

    type: str
    status: str  # True, False, Unknown
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None
    observed_generation: int | None = None


def condition(conditions: tuple[Condition, ...], type_: str) -> Condition | None:
    """Return the condition of that type; None where nobody reported it yet."""
    for one in conditions:  # asked thousands of times a second: no generator
        if one.type == type_:
            return one
    return None


def with_condition(conditions: tuple[Condition, ...], new: Condition, *, now: datetime) -> tuple[Condition, ...]:
    """Return the conditions with `new` in place; its transition time is `now` only where the status changed."""
    old = condition(conditions, new.type)
    since = old.last_transition_time if old is not None and old.status == new.status else to_seconds(now)
    stamped = replace(new, last_transition_time=since)
    if stamped == old:
        return conditions
    if old is None:
        return (*conditions, stamped)
    return tuple(stamped if one.type == new.type else one for one in conditions)


class Object(Struct, frozen=True):
    """What every stored object has. Subclasses add `spec` and `status`, or `content` (`kinds.template.Template`)."""

    api_version: str
    kind: str
    metadata: ObjectMeta = ObjectMeta()

    @property
    def ref(self) -> Ref:
        metadata = self.metadata  # asked for many times a change: made without a call in between
        return tuple.__new__(Ref, (kind_key(self.api_version, self.kind), metadata.namespace, metadata.name))

    def with_meta(self, **changes: Any) -> Self:
        """Return the object with metadata fields changed; the same object where nothing changes."""
        metadata = replace(self.metadata, **changes)
        return self if metadata == self.metadata else replace(self, metadata=metadata)

    def with_spec(self, **changes: Any) -> Self:
        """Return the object with spec fields changed and its generation raised; itself where nothing changes."""
        old: msgspec.Struct = self.spec  # type: ignore[attr-defined]  # every subclass that is edited this way has a spec
        spec = replace(old, **changes)
        if spec == old:
            return self
        return replace(self, spec=spec, metadata=replace(self.metadata, generation=self.metadata.generation + 1))

    def with_status(self, **changes: Any) -> Self:
        """Return the object with status fields changed; the same object where nothing changes."""
        old: msgspec.Struct = self.status  # type: ignore[attr-defined]  # as in with_spec
        status = replace(old, **changes)
        return self if status == old else replace(self, status=status)
