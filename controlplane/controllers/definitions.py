"""Definitions: establishes CustomResourceDefinitions, and deletes the objects of a definition that is deleted.

A definition is served as soon as it is written (`controlplane.propagation.definitions`). If two definitions claim a
name, this controller decides which of them has it. The other one gets the name once it is free. The behaviour is that
of apiextensions.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, ClassVar

from controlplane import kinds
from controlplane.apimachinery.meta import Object, Ref, Struct
from controlplane.controllers.reads.still_to_delete import still_to_delete
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.propagation import definitions
from controlplane.settings import Settings
from controlplane.wire.definition import CLEANUP_FINALIZER
from controlplane.wire.resource import Resource

PAGE = 500  # objects of a kind deleted at once
# Processes read definitions every half second. Until then, one of them may still create an object of a deleted kind.
ALL_PROCESSES_KNOW = timedelta(seconds=2)
LOOK_AGAIN = timedelta(seconds=1)  # while finalizers keep objects of the kind
LOOK_AT_MANY = timedelta(seconds=10)  # while they keep a page or more, because all of them are read
# Stands for all definitions of a group in a key. No kind has this name.
GROUP = "apiextensions.k8s.io/*"


class DefinitionsSnapshot(Struct, frozen=True):
    """A definition, the kinds whose names it may not take, and objects of its kind if it is being deleted."""

    definition: Template
    taken: tuple[Resource, ...]
    objects: tuple[Object, ...]

    @property
    def subject(self) -> Template:
        return self.definition


def _definition_changed(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """A definition is due when it was created, edited or marked for deletion."""
    if new is None:
        return
    going = new.metadata.deletion_timestamp is not None
    if old is None or old.content != new.content or going != (old.metadata.deletion_timestamp is not None):
        yield new.ref


def _definition_gone(old: Template | None, new: Template | None) -> Iterator[Ref]:
    """The definitions of a group are due when one of them was removed, because its names are free now."""
    if old is not None and new is None:
        yield Ref(GROUP, "", str(old.spec.get("group", "")))


class Definitions(Controller):
    """Key: a CustomResourceDefinition. Writes its status, deletes its objects, and removes its finalizer."""

    name: ClassVar[str] = "definitions"
    group: ClassVar[str] = "propagation"
    keys: ClassVar[tuple[str, ...]] = (kinds.DEFINITION,)
    watches: ClassVar[tuple[Watch, ...]] = (
        Watch(kinds.DEFINITION, _definition_changed),
        Watch(kinds.DEFINITION, _definition_gone, fan_out=True),
    )
    owns: ClassVar[Ownership] = Ownership({"*": ("delete",), kinds.DEFINITION: ("status", "metadata.finalizers")})
    batch: ClassVar[int] = 1  # each definition reads objects of its kind

    def expand(self, state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Ref], str | None]:
        return [
            definition.ref for definition in state.list(kinds.DEFINITION) if _group(definition) == origin.name
        ], None

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[DefinitionsSnapshot | None]:
        all_definitions: Sequence[Template] = state.list(kinds.DEFINITION)
        found = {definition.ref: definition for definition in all_definitions}
        return [self._snapshot(state, found[ref], all_definitions) if ref in found else None for ref in refs]

    def _snapshot(self, state: State, definition: Template, all_definitions: Sequence[Template]) -> DefinitionsSnapshot:
        deleted = definition.metadata.deletion_timestamp is not None
        kind = f"{_group(definition)}/{(definition.spec.get('names') or {}).get('kind', '')}"
        has_objects = deleted and not definitions.is_refused(definition) and kind not in _DECLARED
        objects = still_to_delete(state, kind, goes=_goes, limit=PAGE) if has_objects else ()
        preferred = (other for other in all_definitions if _has_precedence(other, definition))
        taken = (other_kind.resource for other in preferred if (other_kind := definitions.kind_of(other)))
        return DefinitionsSnapshot(definition, (*_DECLARED.values(), *taken), tuple(objects))

    def decide(
        self, snapshot: DefinitionsSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        definition = snapshot.definition
        try:
            new = definitions.settled(definition, snapshot.taken, now=now)
        except (KeyError, TypeError, AttributeError, StopIteration):
            return NOTHING  # stored before definitions were validated: it defines no kind
        if definition.metadata.deletion_timestamp is None:
            return NOTHING if new == definition else Decision(changes=(Put(new, definition),), reason="NamesSettled")
        known_at = definition.metadata.deletion_timestamp + ALL_PROCESSES_KNOW
        if not snapshot.objects and now < known_at:
            return Decision(
                changes=(Put(new, definition),) if new != definition else (), wake_at=known_at, reason="KindDeleted"
            )
        if not snapshot.objects:
            kept = tuple(name for name in definition.metadata.finalizers if name != CLEANUP_FINALIZER)
            new = new.with_meta(finalizers=kept)
            return NOTHING if new == definition else Decision(changes=(Put(new, definition),), reason="KindEmpty")
        left = [obj for obj in snapshot.objects if _goes(obj)]
        changes = (*(deleting(obj, now=now) for obj in left), *((Put(new, definition),) if new != definition else ()))
        wait = LOOK_AGAIN if left or len(snapshot.objects) < PAGE else LOOK_AT_MANY
        return Decision(changes=changes, wake_at=now + wait, reason="KindDeleted")


def _goes(obj: Object) -> bool:
    """Test whether an object of the kind still has to be deleted."""
    return obj.metadata.deletion_timestamp is None


_DECLARED = {kind.key: kind.resource for kind in KINDS if not KINDS.is_custom(kind)}
_EARLIEST = datetime.min.replace(tzinfo=UTC)


def _group(definition: Template) -> str:
    return str(definition.spec.get("group", ""))


def _has_precedence(other: Template, definition: Template) -> bool:
    """Test whether another definition has precedence for a name that both claim.

    The definition that has the name already keeps it. Otherwise the older one gets it.
    """
    if other.ref == definition.ref or _group(other) != _group(definition) or definitions.is_refused(other):
        return False
    return definitions.is_refused(definition) or _age(other) < _age(definition)


def _age(definition: Template) -> tuple[datetime, str]:
    return definition.metadata.creation_timestamp or _EARLIEST, definition.metadata.name
