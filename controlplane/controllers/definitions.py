"""CustomResourceDefinitions: established where their names are free; deleted, they take what they brought along.

What a definition brings is served as soon as it is written (`controlplane.propagation.definitions`). This controller
settles who has a name two definitions want, lets the other one have it when it is free again, and empties
a kind that goes (semantics of apiextensions.k8s.io/v1).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, Struct
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation import definitions
from controlplane.settings import Settings
from controlplane.wire.definition import CLEANUP_FINALIZER
from controlplane.wire.resource import Resource

PAGE = 500  # objects of a kind deleted in one go
# Processes look at definitions every half second: until then one may still make an object of a kind that goes.
HEARD = timedelta(seconds=2)
LOOK_AGAIN = timedelta(seconds=1)  # while finalizers of others hold objects of the kind
# Stands for all definitions of a group in a key; no kind is called so.
GROUP = "apiextensions.k8s.io/*"


class Bringing(Struct, frozen=True):
    """A definition, the kinds whose names it may not take, and, where it goes, objects it has brought."""

    definition: Template
    taken: tuple[Resource, ...]
    objects: tuple[Object, ...]

    @property
    def subject(self) -> Template:
        return self.definition


def _changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    if new is None:
        return
    going = new.metadata.deletion_timestamp is not None
    if old is None or old.content != new.content or going != (old.metadata.deletion_timestamp is not None):
        yield new.ref


def _freed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A definition that has gone leaves its names to the others of its group."""
    if old is not None and new is None:
        yield Ref(GROUP, "", str(old.spec.get("group", "")))


class Definitions(Controller):
    """Key: a CustomResourceDefinition."""

    name: ClassVar[str] = "definitions"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.DEFINITION,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.DEFINITION, _changed),
        Watch(kinds.DEFINITION, _freed, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership({"*": ("delete",), kinds.DEFINITION: ("status", "metadata.finalizers")})
    batch: ClassVar[int] = 1  # it asks for the objects of a kind

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        return [one.ref for one in state.list(kinds.DEFINITION) if _group(one) == origin.name], None

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Bringing | None]:
        everybody: Sequence[Template] = state.list(kinds.DEFINITION)
        found = {one.ref: one for one in everybody}
        return [self._bringing(state, found[ref], everybody) if ref in found else None for ref in refs]

    def _bringing(self, state: State, one: Template, everybody: Sequence[Template]) -> Bringing:
        going = one.metadata.deletion_timestamp is not None
        kind = f"{_group(one)}/{(one.spec.get('names') or {}).get('kind', '')}"
        brought = going and not definitions.is_refused(one) and kind not in _DECLARED
        objects = state.list(kind, limit=PAGE) if brought else ()
        others = (kind_ for other in everybody if _goes_before(other, one) if (kind_ := definitions.kind_of(other)))
        return Bringing(one, (*_DECLARED.values(), *(other.resource for other in others)), tuple(objects))

    def decide(self, snapshot: Bringing, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        one = snapshot.definition
        try:
            new = definitions.settled(one, snapshot.taken, now=now)
        except (KeyError, TypeError, AttributeError, StopIteration):
            return NOTHING  # written before anybody validated definitions: it brings nothing
        if one.metadata.deletion_timestamp is None:
            return NOTHING if new == one else Decision(changes=(Put(new, one),), reason="NamesSettled")
        heard = one.metadata.deletion_timestamp + HEARD
        if not snapshot.objects and now < heard:
            return Decision(changes=(Put(new, one),) if new != one else (), wake_at=heard, reason="KindDeleted")
        if not snapshot.objects:
            kept = tuple(name for name in one.metadata.finalizers if name != CLEANUP_FINALIZER)
            new = new.with_meta(finalizers=kept)
            return NOTHING if new == one else Decision(changes=(Put(new, one),), reason="KindEmpty")
        going = (found for found in snapshot.objects if found.metadata.deletion_timestamp is None)
        changes = (*(deleting(found, now=now) for found in going), *((Put(new, one),) if new != one else ()))
        return Decision(changes=changes, wake_at=now + LOOK_AGAIN, reason="KindDeleted")


_DECLARED = {kind.key: kind.resource for kind in KINDS if not KINDS.is_custom(kind)}
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _group(one: Template) -> str:
    return str(one.spec.get("group", ""))


def _goes_before(other: Template, one: Template) -> bool:
    """Test whether another definition keeps a name that both want: who has it already, then who was there first."""
    if other.ref == one.ref or _group(other) != _group(one) or definitions.is_refused(other):
        return False
    return definitions.is_refused(one) or _age(other) < _age(one)


def _age(one: Template) -> tuple[datetime, str]:
    return one.metadata.creation_timestamp or _EARLIEST, one.metadata.name
