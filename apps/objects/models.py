"""Rows: what is kept of every object, the change log, and what has to be looked at next.

Written by `apply`, `due` and `leases` of this app and by nothing else; the document is the truth, columns beside it are
projections for SQL, admin and constraints.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any, ClassVar, NamedTuple

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models.functions import Lower

from apps.objects.fields import CodePointTextField
from apps.objects.read_only import ReadOnlyModel
from apps.objects.relations import ReferenceField
from apps.objects.row_model import RowModel
from controlplane.kinds import rows

PENDING_KILOBYTES = 64  # the least PostgreSQL takes


class Child(NamedTuple):
    """Rows of another table that repeat a part of the document: `rows(obj)` gives their values, in order of `columns`.

    `owner` is the column that holds the object's name (`by_name`) or its reference as text.
    """

    table: str  # "app.Model"
    owner: str
    columns: tuple[str, ...]
    rows: Callable[[Any], Sequence[tuple[Any, ...]]]
    by_name: bool = False


def search_indexes(*, pending: Collection[str]) -> list[models.Index]:
    """Return the indexes an object is found by besides its reference.

    `pending`: "keys", "labels" or both. Their entries wait in a short list that every search reads and that is sorted
    in at once, which halves the cost of writing; not for what is searched for hundreds of values at a time.
    """
    waits = {"fastupdate": True, "gin_pending_list_limit": PENDING_KILOBYTES}
    keys: dict[str, Any] = waits if "keys" in pending else {"fastupdate": False}
    labels: dict[str, Any] = waits if "labels" in pending else {"fastupdate": False}
    return [
        # read by state.by_index, state.refs_by_index: the indexes a kind declares
        GinIndex(fields=["keys"], name="%(class)s_keys", **keys),
        # read by state.documents: label selectors of the API
        GinIndex(fields=["labels"], name="%(class)s_labels", **labels),
    ]


class StoredObject(ReadOnlyModel):
    """One object. `doc` is exactly the bytes served; `keys` are "index=value" of the kind's declared indexes."""

    id = models.BigAutoField(primary_key=True)
    kind = CodePointTextField()
    namespace = CodePointTextField()
    name = CodePointTextField()
    uid = CodePointTextField()
    resource_version = models.BigIntegerField()
    generation = models.BigIntegerField()
    doc = models.TextField()
    keys = ArrayField(CodePointTextField())
    labels = ArrayField(CodePointTextField())  # "key=value" and "key", for label selectors
    deletion_timestamp = models.DateTimeField(null=True)  # null: not being deleted
    created_at = models.DateTimeField(null=True)
    reference = ReferenceField()

    projections: ClassVar[dict[str, Callable[[Any], Any]]] = {}
    children: ClassVar[tuple[Child, ...]] = ()

    class Meta:
        abstract = True
        constraints = [
            # read by state.get, state.list, apply: an object by its reference, a kind in order
            models.UniqueConstraint(fields=["kind", "namespace", "name"], name="%(class)s_ref"),
        ]
        indexes = search_indexes(pending=())

    def __str__(self) -> str:
        return f"{self.kind}:{self.namespace}/{self.name}" if self.namespace else f"{self.kind}:{self.name}"


class Object(StoredObject):
    """An object of a kind that has no table of its own: templates, and any kind a user brings."""

    class Meta(StoredObject.Meta):
        indexes = search_indexes(pending=("keys", "labels"))


class Event(StoredObject):
    """A Kubernetes Event; in a table of its own because there are many and they are soon forgotten."""

    projections: ClassVar = {"reason": lambda event: event.reason, "last_at": lambda event: event.last_timestamp}

    reason = CodePointTextField()
    last_at = models.DateTimeField(null=True)

    class Meta(StoredObject.Meta):
        indexes = [
            *search_indexes(pending=("keys", "labels")),
            # read by the admin: the newest first
            models.Index(fields=["last_at"], name="event_last_at"),
        ]


BEGINS_FAILOVER = ("Evictions", "ApplicationFailover", "Drain", "Failback", "Revert")
"""Reasons of changes that begin failovers."""


class ChangeLog(ReadOnlyModel):
    """One written version: the document before and after, by whom and why. Partitioned by version."""

    version = models.BigIntegerField(primary_key=True)
    type = CodePointTextField()  # ADDED, MODIFIED, DELETED
    kind = CodePointTextField()
    namespace = CodePointTextField()
    name = CodePointTextField()
    doc = models.TextField()
    old_doc = models.TextField(null=True)  # null: there was none
    actor = CodePointTextField()
    reason = CodePointTextField()
    cause = models.BigIntegerField()  # version of the change acted upon, 0 unknown
    at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "change log"
        indexes = [
            # read by state.list_at and the pages that show an object's history
            models.Index(fields=["kind", "namespace", "name", "version"], name="changelog_object"),
            # read by failovers: which bindings failed over, and when
            models.Index(
                fields=["namespace", "name", "kind", "version"],
                name="changelog_failovers",
                condition=models.Q(type="MODIFIED", reason__in=BEGINS_FAILOVER),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} {self.type} {self.kind}:{self.namespace}/{self.name}"


class Due(ReadOnlyModel):
    """An object a controller has to look at. `seq` changes with every mark: none made meanwhile is lost."""

    id = models.BigAutoField(primary_key=True)
    controller = CodePointTextField()
    kind = CodePointTextField()
    namespace = CodePointTextField()
    name = CodePointTextField()
    due_at = models.DateTimeField()
    seq = models.BigIntegerField()
    lease_until = models.DateTimeField(null=True)  # null: nobody works on it
    cursor = models.TextField(default="")  # how far a fan-out has come
    hash = models.BigIntegerField()  # CRC-32 of the reference: its shard is hash % shards

    class Meta:
        verbose_name = "due row"
        constraints = [
            # read by due.mark, apply: one row per controller and object
            models.UniqueConstraint(fields=["controller", "kind", "namespace", "name"], name="due_ref"),
        ]
        indexes = [
            # read by due.claim, due.next_due: who has to be looked at next. An expression, so that no plan made while
            # the table was small looks for single rows here instead of in due_ref.
            models.Index(Lower("controller"), "due_at", name="due_next"),
        ]

    def __str__(self) -> str:
        return f"{self.controller} {self.kind}:{self.namespace}/{self.name}"


class Lease(ReadOnlyModel):
    """Who may run a shard of a group. `epoch` rises with every new holder; apply refuses an old one."""

    id = models.BigAutoField(primary_key=True)
    name = CodePointTextField()
    shard = models.IntegerField()
    holder = CodePointTextField()
    epoch = models.BigIntegerField()
    until = models.DateTimeField()

    class Meta:
        constraints = [
            # read by leases.take: one holder per shard
            models.UniqueConstraint(fields=["name", "shard"], name="lease_shard"),
        ]

    def __str__(self) -> str:
        return f"{self.name}/{self.shard} {self.holder}"


class Sweep(RowModel, row=rows.Sweep):
    """How far garbage collection has looked through a kind; row-native (`controlplane.kinds.rows.Sweep`)."""


class Counter(ReadOnlyModel):
    """The one row that hands out resourceVersions. Its lock is the global write lock: version order is commit order."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    version = models.BigIntegerField()  # the newest version written

    class Meta:
        constraints = [
            # read by apply: there is one counter
            models.CheckConstraint(condition=models.Q(id=1), name="counter_is_one"),
        ]

    def __str__(self) -> str:
        return str(self.version)


class Origin(ReadOnlyModel):
    """The one row that says which database this is, and since when members are left alone (`apps.objects.origin`)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    installation = CodePointTextField()  # random; the same in every copy and backup of the database
    system = CodePointTextField()  # PostgreSQL's system identifier; "": the server does not say
    timeline = models.BigIntegerField()  # 0: the server does not say
    database = models.BigIntegerField()  # OID
    floor = models.BigIntegerField()  # a watch from an older version gets 410: it may be from before a restore
    held_since = models.DateTimeField(null=True)  # null: members are served
    held_for = models.TextField()  # why members are left alone

    class Meta:
        constraints = [
            # read by origin.look: there is one origin
            models.CheckConstraint(condition=models.Q(id=1), name="origin_is_one"),
        ]

    def __str__(self) -> str:
        return self.installation
