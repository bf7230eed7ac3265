"""apply: objects written per second with log, events and due rows, and how long the write lock is held."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from time import perf_counter
from typing import cast

from apps.objects.store import DjangoStore
from apps.objects.transaction import Timing
from controlplane.apimachinery.meta import Condition, ObjectMeta
from controlplane.apimachinery.names import PROPAGATION_POLICY_ID_LABEL
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import Decision, Event, Put
from controlplane.engine.state import Actor, Watch
from controlplane.kind import encode
from controlplane.kinds import RESOURCE_BINDING
from controlplane.kinds.binding import (
    AggregatedStatusItem,
    Binding,
    ObjectReference,
    ReplicaRequirements,
    ResourceBindingSpec,
    ResourceBindingStatus,
    TargetCluster,
)
from controlplane.kinds.policy import ClusterAffinity, Placement, ReplicaSchedulingStrategy, Toleration
from tests.bench.bare_copy import BareCopy
from tests.bench.figure import ROUNDS, Figure, loop_text, medians, percentile, python_loop
from tests.emptied import empty_database

OBJECTS = 12_000
WARM_UP = 3_000
BATCH = 600
EVENTS_EVERY = 10
_AT = datetime(2026, 1, 1, tzinfo=UTC)


class Works(Controller):
    """Stands for what watches bindings in the product: every change makes one object due."""

    name = "works"
    group = "bench"
    keys = (RESOURCE_BINDING,)
    watches = (Watch(RESOURCE_BINDING, lambda old, new: [(new or old).ref]),)
    owns = Ownership({})


def binding(number: int) -> Binding:
    """Return a binding of about 1.5 KB, as a policy with two clusters makes them."""
    name = f"web-{number:06}-deployment"
    clusters = (TargetCluster(f"member{number % 50}", 2), TargetCluster(f"member{(number + 7) % 50}", 3))
    placement = Placement(
        cluster_affinity=ClusterAffinity(cluster_names=("member1", "member2", "member3")),
        cluster_tolerations=(Toleration("cluster.karmada.io/not-ready", "Exists", "", "NoExecute", 300),),
        replica_scheduling=ReplicaSchedulingStrategy("Divided", "Aggregated"),
    )
    metadata = ObjectMeta(
        name=name,
        namespace=f"team-{number % 20}",
        uid=f"{number:08}-5dd7-4c5e-9a54-6f6bd1f1b1e5",
        generation=1,
        creation_timestamp=_AT,
        labels={PROPAGATION_POLICY_ID_LABEL: f"policy-{number % 100}", "app": f"web-{number % 500}"},
        annotations={"policy.karmada.io/applied-placement": "x" * 200},
        finalizers=("karmada.io/binding-controller",),
    )
    spec = ResourceBindingSpec(
        resource=ObjectReference("apps/v1", "Deployment", name, metadata.namespace, metadata.uid),
        replicas=5,
        clusters=clusters,
        placement=placement,
        replica_requirements=ReplicaRequirements(resource_request={"cpu": "250m", "memory": "512Mi"}),
    )
    return Binding("work.karmada.io/v1alpha2", "ResourceBinding", metadata, spec, _status(clusters, 1))


def _status(clusters: tuple[TargetCluster, ...], generation: int) -> ResourceBindingStatus:
    return ResourceBindingStatus(
        scheduler_observed_generation=generation,
        last_scheduled_time=_AT,
        conditions=(Condition("Scheduled", "True", "Success", "scheduled to 2 clusters", _AT),),
        aggregated_status=tuple(
            AggregatedStatusItem(
                one.name, {"replicas": one.replicas, "readyReplicas": one.replicas}, True, "", "Healthy"
            )
            for one in clusters
        ),
    )


def _changed(old: Binding, number: int) -> Binding:
    """Return the binding after one of two kinds of change: rescheduled, or a report of its status."""
    if number % 2:
        return old.with_status(conditions=(Condition("FullyApplied", "True", "Done", f"seen {number}", _AT),))
    return old.with_spec(clusters=(TargetCluster(f"member{number % 50}", 5),))


def run() -> list[Figure]:
    """Create bindings and change them, in turn, batch by batch, in rounds of an empty database."""
    return medians([_round() for _ in range(ROUNDS)])


def _round() -> list[Figure]:
    empty_database()
    timings: list[Timing] = []
    store = DjangoStore(controllers=[Works()], observe=timings.append)
    made = [binding(number) for number in range(WARM_UP + OBJECTS // 2)]
    size = len(encode(made[0]).at(1))
    by = Actor("bench")
    known = _write(store, by, created(made[:WARM_UP]))
    timings.clear()
    copy = BareCopy()
    copy.remember()
    seconds = 0.0
    written = 0
    for start in range(WARM_UP, len(made), BATCH // 2):
        fresh = made[start : start + BATCH // 2]
        changes = created(fresh)
        changes += [
            (_changed(known[number % len(known)], number), known[number % len(known)]) for number in _slots(start)
        ]
        began = perf_counter()
        stored = _write(store, by, changes)
        seconds += perf_counter() - began
        written += len(changes)
        for number, obj in zip(_slots(start), stored[len(fresh) :], strict=True):
            known[number % len(known)] = obj
        known += stored[: len(fresh)]
    held = [one.locked_seconds * 1000 for one in timings]
    rate, copied, loop = written / seconds, written / copy.seconds(), loop_text(python_loop())
    beside = f"bare COPY {copied:,.0f} objects/s, {loop}"
    conditions = f"{size} B bindings, half created and half changed, log, events on 10 %, due rows, 1 process"
    return [
        Figure("apply.objects", rate, "objects/s", written, conditions, beside=beside, ratio=rate / copied),
        Figure("apply.lock_p50", percentile(held, 0.5), "ms", len(held), conditions, beside=loop),
        Figure("apply.lock_p99", percentile(held, 0.99), "ms", len(held), conditions, beside=loop),
    ]


def _slots(start: int) -> range:
    return range(start, start + BATCH // 2)


Changes = list[tuple[Binding, Binding | None]]
"""New states of bindings, each with the state before; None: the binding is created."""


def created(bindings: Sequence[Binding]) -> Changes:
    """Return the changes that create bindings."""
    return [(one, None) for one in bindings]


def _write(store: DjangoStore, by: Actor, changes: Changes) -> list[Binding]:
    decisions = [
        Decision(
            changes=(Put(new, old),),
            events=(Event(new, "Scheduled", "placed on two clusters"),) if number % EVENTS_EVERY == 0 else (),
            reason="bench",
        )
        for number, (new, old) in enumerate(changes)
    ]
    outcomes = store.apply([(None, one) for one in decisions], by=by)
    assert not any(one.lost for one in outcomes), [one.lost for one in outcomes if one.lost][:3]
    return [cast(Binding, one.objects[0]) for one in outcomes]
