"""Objects whose stored document is none of their kind: a person changed a row, or a later release wrote it.

The API can neither change nor delete them, because both begin with what is stored. Here such a document is replaced: by
the newest one of the change log that can be read, or by an object of the name that is being deleted.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final, NamedTuple

import msgspec
from django.db import connection, transaction

from apps.objects import due
from apps.objects.apply import binary_cursor
from apps.objects.arrays import BinaryCursor
from apps.objects.batch import Texts
from apps.objects.encryption import SealError
from apps.objects.legible_state import empty
from apps.objects.store import DjangoStore
from apps.objects.tables import object_table, object_tables, read
from apps.objects.verification import derive_again
from controlplane.apimachinery.meta import Object, ObjectMeta, Ref
from controlplane.clusters import unjoin
from controlplane.engine.decision import Decision, Delete, Put
from controlplane.engine.lifecycle import request_deletion
from controlplane.engine.state import Actor, Unreadable
from controlplane.kinds.binding import Binding, ObjectReference
from controlplane.kinds.cluster.damaged import readable_fields
from controlplane.settings import Settings

BY: Final = Actor("damaged")
PAGE: Final = 500  # rows that one query reads


class NotDamaged(Exception):
    """The object does not exist, or its document can be read; or nothing can be put in its place."""


class Damaged(NamedTuple):
    """A stored object whose document cannot be read, because of `why`."""

    ref: Ref
    why: str
    id: int
    uid: str
    version: int
    generation: int
    doc: str


class Earlier(NamedTuple):
    """The newest state of an object in the change log that can be read."""

    version: int
    obj: Object


def damaged() -> Iterator[Damaged]:
    """Yield all damaged objects. Those whose encryption key is lost are not damaged: their other parts can be read."""
    for table in object_tables():
        after = 0
        while rows := _rows(f"{_SELECT.format(table.name)} WHERE id > %s ORDER BY id LIMIT {PAGE}", after):
            yield from filter(None, map(_damage, rows))
            after = rows[-1][0]


def earlier(one: Damaged) -> Earlier | None:
    """Return the newest state of this very object that can be read. None: the change log has none."""
    for version, doc in _rows(_LOGGED, *one.ref):
        try:
            obj = read(one.ref.kind, doc, unopened=True)
        except Unreadable:
            continue
        return Earlier(version, obj) if obj.metadata.uid == one.uid else None
    return None


def restore(store: DjangoStore, ref: Ref) -> Earlier:
    """Put the newest state that can be read in the place of a damaged document; return it.

    If it is not the newest state, it is written as a new version, so that watchers get it. Raises NotDamaged.
    """
    with _writing() as cursor:
        one = _found(ref)
        state = earlier(one)
        if state is None:
            raise NotDamaged(f"the change log has no state of {ref} that can be read: it can only be deleted")
        obj = _replace(store, cursor, one, state.obj)
    if state.version != one.version:
        _write(store, Put(_raised(obj), obj))
    return state


def delete(store: DjangoStore, ref: Ref, settings: Settings) -> bool:
    """Delete a damaged object; return whether it is gone. If not, its finalizers are waited for as usual.

    It is deleted as it was when it could be read last, because controllers clean up after what it says.
    Raises NotDamaged, and what the API raises if an object must not be deleted.
    """
    with _writing() as cursor:
        one = _found(ref)
        plain = _legible(one) if (state := earlier(one)) is None else state.obj
        unjoin.check(store, [plain], settings)
        asked = request_deletion(plain, now=store.now())
        obj = _replace(store, cursor, one, asked.new if isinstance(asked, Put) else asked.old)
    _write(store, Put(_raised(obj), obj) if obj.metadata.finalizers else Delete(obj))
    return not obj.metadata.finalizers


_SELECT: Final = "SELECT id, kind, namespace, name, uid, resource_version, generation, doc FROM {}"
_LOGGED: Final = """
    SELECT version, doc FROM objects_changelog WHERE (kind, namespace, name) = (%s, %s, %s) AND type <> 'DELETED'
    ORDER BY version DESC"""


def _rows(query: str, *parameters: Any) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(query, parameters)
        return cursor.fetchall()


def _damage(row: tuple[Any, ...]) -> Damaged | None:
    number, kind, namespace, name, uid, version, generation, doc = row
    try:
        read(kind, doc, unopened=True)
    except SealError:
        return None
    except Unreadable as error:
        return Damaged(Ref(kind, namespace, name), str(error), number, str(uid), version, generation, doc)
    return None


@contextmanager
def _writing() -> Iterator[BinaryCursor]:
    """Yield a cursor in a transaction beside which nothing else is written."""
    with transaction.atomic(durable=True), binary_cursor() as cursor:
        cursor.run(due.WRITE_LOCK)
        yield cursor


def _found(ref: Ref) -> Damaged:
    where = "WHERE (kind, namespace, name) = (%s, %s, %s)"
    rows = _rows(f"{_SELECT.format(object_table(ref.kind).name)} {where}", *ref)
    if not rows:
        raise NotDamaged(f"{ref} does not exist")
    if (one := _damage(rows[0])) is None:
        raise NotDamaged(f"{ref} is not damaged: use the API")
    return one


def _legible(one: Damaged) -> Object:
    """Return an object with what can be read of the metadata, and nothing else. A binding names the template that owns
    it, so that the template gets another one."""
    try:
        document = msgspec.json.decode(one.doc)
    except msgspec.MsgspecError:
        document = {}
    stated = document.get("metadata") if isinstance(document, dict) else {}
    obj = empty(one.ref)
    metadata = readable_fields(ObjectMeta, stated)
    for owner in metadata.owner_references:
        if isinstance(obj, Binding) and owner.controller:
            place = owner.api_version, owner.kind, owner.name, one.ref.namespace, owner.uid
            obj = obj.with_spec(resource=ObjectReference(*place))
    return obj.with_meta(**{name: getattr(metadata, name) for name in _KEPT})


_KEPT: Final = ("creation_timestamp", "deletion_timestamp", "labels", "annotations", "finalizers", "owner_references")


def _replace(store: DjangoStore, cursor: BinaryCursor, one: Damaged, obj: Object) -> Object:
    """Store a document in place of a damaged one, and derive its columns and child rows. Its version stays."""
    new = obj.with_meta(
        name=one.ref.name,
        namespace=one.ref.namespace,
        uid=one.uid,
        generation=max(one.generation, obj.metadata.generation),
        resource_version=str(one.version),
    )
    table, text = object_table(one.ref.kind), Texts().of(new).at(one.version).decode()
    with connection.cursor() as plain:
        plain.execute(f"UPDATE {table.name} SET doc = %s WHERE id = %s", [text, one.id])
    derive_again(store, cursor, table, [one.id])
    return new


def _raised(obj: Object) -> Object:
    """Return an object that differs from the stored one, so that its write gets a version and watchers see it."""
    return obj.with_meta(generation=obj.metadata.generation + 1)


def _write(store: DjangoStore, change: Put | Delete) -> None:
    store.apply([(None, Decision(changes=(change,)))], by=BY)
