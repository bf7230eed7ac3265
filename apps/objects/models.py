"""Tables of stored objects, of the change log, and of the work of controllers: due rows and leases.

Only `apply`, `due`, `leases` and `origin` of this app write them; `verification` repairs derived values. The document
of an object is the truth. The other columns repeat parts of it for queries, the admin and constraints.
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

PENDING_KILOBYTES = 64  # the smallest value that PostgreSQL accepts


class Child(NamedTuple):
    """A table whose rows repeat a part of the document, for example the taints of a Cluster.

    `rows(obj)` returns the values of the rows in the order of `columns`. `owner` is the column with the object's name
    (`by_name`) or with its reference as text.
    """

    table: str  # "app.Model"
    owner: str
    columns: tuple[str, ...]
    rows: Callable[[Any], Sequence[tuple[Any, ...]]]
    by_name: bool = False


def search_indexes(*, pending: Collection[str]) -> list[models.Index]:
    """Return the indexes for searches by keys and by labels.

    `pending`: "keys", "labels" or both. New entries of these indexes wait in a short list until they are sorted in
    together, which halves the cost of writing. Every search reads that list, so do not use it for an index in which
    hundreds of values are looked up at once.
    """
    with_list = {"fastupdate": True, "gin_pending_list_limit": PENDING_KILOBYTES}
    keys: dict[str, Any] = with_list if "keys" in pending else {"fastupdate": False}
    labels: dict[str, Any] = with_list if "labels" in pending else {"fastupdate": False}
    return [
        # read by state.by_index, state.refs_by_index: the indexes a kind declares
        GinIndex(fields=["keys"], name="%(class)s_keys", **keys),
        # read by state.documents: label selectors of the API
        GinIndex(fields=["labels"], name="%(class)s_labels", **labels),
    ]


class StoredObject(ReadOnlyModel):
    """A stored object. `doc` is the document as it is served; `keys` has "index=value" for the kind's indexes."""

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
    """An object of a kind without a table of its own: templates, and kinds that users define."""

    class Meta(StoredObject.Meta):
        indexes = search_indexes(pending=("keys", "labels"))


class Event(StoredObject):
    """A Kubernetes Event. Events have a table of their own because they are many and are deleted soon."""

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
"""Reasons in the change log with which a failover begins."""


class ChangeLog(ReadOnlyModel):
    """A line of the change log: a written version, the document before and after, who wrote it and why.

    The table is partitioned by version.
    """

    version = models.BigIntegerField(primary_key=True)
    type = CodePointTextField()  # ADDED, MODIFIED, DELETED
    kind = CodePointTextField()
    namespace = CodePointTextField()
    name = CodePointTextField()
    doc = models.TextField()
    old_doc = models.TextField(null=True)  # null: the object was created
    actor = CodePointTextField()
    reason = CodePointTextField()
    cause = models.BigIntegerField()  # version of the change that the actor reacted to; 0: unknown
    at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "change log"
        indexes = [
            # read by state.list_at and the pages that show an object's history
            models.Index(fields=["kind", "namespace", "name", "version"], name="changelog_object"),
            # read by failovers: the bindings that failed over, and when
            models.Index(
                fields=["namespace", "name", "kind", "version"],
                name="changelog_failovers",
                condition=models.Q(type="MODIFIED", reason__in=BEGINS_FAILOVER),
            ),
        ]

    def __str__(self) -> str:
        return f"{self.version} {self.type} {self.kind}:{self.namespace}/{self.name}"


class Due(ReadOnlyModel):
    """A due row: an object that a controller has to look at. Each mark changes `seq`, so that no mark is lost."""

    id = models.BigAutoField(primary_key=True)
    controller = CodePointTextField()
    kind = CodePointTextField()
    namespace = CodePointTextField()
    name = CodePointTextField()
    due_at = models.DateTimeField()
    seq = models.BigIntegerField()
    lease_until = models.DateTimeField(null=True)  # null: no process works on it
    cursor = models.TextField(default="")  # position of a fan-out that is worked off in chunks; references of a bundle
    hash = models.BigIntegerField()  # CRC-32 of the reference; the shard is hash % shards

    class Meta:
        verbose_name = "due row"
        constraints = [
            # read by due.mark, apply: one row per controller and object
            models.UniqueConstraint(fields=["controller", "kind", "namespace", "name"], name="due_ref"),
        ]
        indexes = [
            # read by due.claim, due.next_due: the rows that are due next. An expression, so that no query plan that was
            # made while the table was small looks for single rows here instead of in due_ref.
            models.Index(Lower("controller"), "due_at", name="due_next"),
        ]

    def __str__(self) -> str:
        return f"{self.controller} {self.kind}:{self.namespace}/{self.name}"


class Lease(ReadOnlyModel):
    """The right of a process to run a shard of a group. `epoch` rises with each holder; apply refuses earlier ones."""

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
    """The position of garbage collection in the objects of a kind."""


class AuditEvent(RowModel, row=rows.AuditEvent, prose=("reason", "document")):
    """A request that wrote something or was refused."""

    class Meta:
        verbose_name = "audit event"
        indexes = [
            # read by the admin, newest first, and by worker.audit_delivery, which removes old events
            models.Index(fields=["at"], name="audit_at"),
            # read by the admin: the requests of a user
            models.Index(fields=["username", "at"], name="audit_user"),
            # read by the admin: the requests about an object
            models.Index(fields=["name", "at"], name="audit_name", condition=~models.Q(name="")),
            # read by worker.audit_delivery: what the webhook has not got
            models.Index(fields=["at"], name="audit_unsent", condition=models.Q(unsent=True)),
        ]


class Counter(ReadOnlyModel):
    """The counter of resourceVersions, one row. Its lock is the global write lock: versions follow the commits."""

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
    """The identity of this database, one row, and whether writes to members are paused (`apps.objects.origin`)."""

    id = models.SmallIntegerField(primary_key=True, default=1)
    installation = CodePointTextField()  # random; the same in every copy and backup of the database
    system = CodePointTextField()  # PostgreSQL's system identifier; "": the server does not reveal it
    timeline = models.BigIntegerField()  # 0: the server does not reveal it
    database = models.BigIntegerField()  # OID
    floor = (
        models.BigIntegerField()
    )  # a watch from an older version gets 410: that version may be from before a restore
    held_since = models.DateTimeField(null=True)  # null: members are written to
    held_for = models.TextField()  # the reason of the pause; "": there is none
    confirmed = models.BooleanField(db_default=False)  # a person confirmed the restored state; the pause ends soon

    class Meta:
        constraints = [
            # read by origin.look: there is one origin
            models.CheckConstraint(condition=models.Q(id=1), name="origin_is_one"),
        ]

    def __str__(self) -> str:
        return self.installation


class Topic(ReadOnlyModel):
    """The number of a row-native table. A trigger raises it with every statement that changes the table."""

    name = CodePointTextField(primary_key=True)  # of the type of the values
    number = models.BigIntegerField()

    class Meta:
        verbose_name = "number of a table"
        verbose_name_plural = "numbers of tables"

    def __str__(self) -> str:
        return f"{self.name} {self.number}"


class RowChange(ReadOnlyModel):
    """A change of a row-native value that can be watched. Triggers write these lines, with versions of their own.

    `before`: null if the value was not listed before; the whole row if it is removed; else only what selectors read. A
    line is dropped with the part of the change log that has its version.
    """

    version = models.BigIntegerField(primary_key=True)
    of = CodePointTextField()  # the type of the value
    key = CodePointTextField()
    before = models.JSONField(null=True)
    removed = models.BooleanField()

    class Meta:
        verbose_name = "change of a row"
        verbose_name_plural = "changes of rows"

    def __str__(self) -> str:
        return f"{self.version} {self.of} {self.key}"


class QuotaUse(ReadOnlyModel):
    """What the bindings of a namespace request of a resource on all clusters together. `apply` adds every change.

    Quotas are checked against these few rows instead of against all bindings [federated-quotas].
    """

    id = models.BigAutoField(primary_key=True)
    namespace = CodePointTextField()
    resource = CodePointTextField()
    amount = models.DecimalField(max_digits=60, decimal_places=0)  # cpu in thousandths, else whole units

    class Meta:
        verbose_name = "use of quotas"
        verbose_name_plural = "use of quotas"
        constraints = [
            # read by DjangoState.quota_use, and by apply, which adds to the amount
            models.UniqueConstraint(fields=["namespace", "resource"], name="one_use_per_resource"),
        ]

    def __str__(self) -> str:
        return f"{self.namespace} {self.resource}: {self.amount}"


class Tally(ReadOnlyModel):
    """How many rows a table has for each cluster and state. Triggers keep the numbers with every statement.

    `counted`: a name of `apps.objects.tallies`. `state` and `reason`: those of an eviction (Stays: its copy stays), the
    purge mode of a task, verdict and obstacles of a readiness, kind and namespace of a binding; "" for targets.
    Readiness is also counted by cluster, and by namespace with both in `reason`. Pages read these few rows instead of
    counting thousands.
    """

    id = models.BigAutoField(primary_key=True)
    counted = CodePointTextField()
    cluster = CodePointTextField()
    state = CodePointTextField()
    reason = CodePointTextField()
    number = models.BigIntegerField()

    class Meta:
        verbose_name_plural = "tallies"
        constraints = [
            # read by the triggers that change the number
            models.UniqueConstraint(fields=["counted", "cluster", "state", "reason"], name="one_tally"),
        ]

    def __str__(self) -> str:
        return f"{self.counted} {self.cluster} {self.state} {self.reason}: {self.number}"
