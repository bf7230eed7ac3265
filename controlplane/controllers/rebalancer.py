"""Rebalancer: has the scheduler place workloads anew, each once per WorkloadRebalancer (semantics 1.6)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct, kind_key, to_seconds
from controlplane.apimachinery.selectors import matches
from controlplane.apimachinery.times import later
from controlplane.engine.controller import Controller, Ownership
from controlplane.engine.decision import NOTHING, Decision, Put, deleting
from controlplane.engine.state import State, Watch
from controlplane.kinds import BINDINGS, WORKLOAD_REBALANCER
from controlplane.kinds.binding import Binding
from controlplane.kinds.template import Template
from controlplane.kinds.workload_rebalancer import (
    FAILED,
    REFERENCED_BINDING_NOT_FOUND,
    SUCCESSFUL,
    ObservedWorkload,
    RebalancedWorkload,
    SelectedWorkloads,
    WorkloadRebalancer,
    WorkloadSelector,
)
from controlplane.propagation.bindings import binding_ref
from controlplane.settings import Settings

AT_ONCE: Final = 500
"""Workloads placed anew in one write; the rest follows in the next."""


class Rebalancing(Struct, frozen=True):
    """A rebalancer with the next of its workloads: `listed` ones not handled yet, and a page of what it selects."""

    subject: WorkloadRebalancer
    listed: tuple[RebalancedWorkload, ...]
    page: tuple[Template, ...]  # at most AT_ONCE templates of the selected kind, matching or not
    bindings: Mapping[Ref, Binding]


def _asked(old: WorkloadRebalancer | None, new: WorkloadRebalancer | None) -> Iterator[Ref]:
    if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
        yield new.ref


class Rebalancer(Controller):
    """Key: a WorkloadRebalancer. One at a time: what a selector reads is a page of one kind."""

    name: ClassVar[str] = "rebalancer"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (WORKLOAD_REBALANCER,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(WORKLOAD_REBALANCER, _asked),)
    owns: ClassVar[Ownership] = Ownership(
        {WORKLOAD_REBALANCER: ("status", "delete"), **dict.fromkeys(BINDINGS, ("spec.reschedule_triggered_at",))}
    )
    batch: ClassVar[int] = 1

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[Rebalancing | None]:
        found: dict[Ref, WorkloadRebalancer] = state.get(refs)
        work = {}
        for ref, one in found.items():
            listed = _unhandled(one)[:AT_ONCE]
            page = _page(state, one) if len(listed) < AT_ONCE else ()
            work[ref] = (listed, page)
        wanted = {
            *(binding_ref(template_of(workload)) for listed, _ in work.values() for workload in listed),
            *(binding_ref(one.ref) for ref, (_, page) in work.items() for one in _matching(found[ref], page)),
        }
        bindings = state.get(wanted) if wanted else {}
        return [Rebalancing(found[ref], *work[ref], bindings) if ref in found else None for ref in refs]

    def decide(self, snapshot: Rebalancing, settings: Settings, *, now: datetime, answer: Any = None) -> Decision:
        rebalancer = snapshot.subject
        if rebalancer.metadata.deletion_timestamp is not None:
            return NOTHING
        status = rebalancer.status
        if status.finish_time is not None and status.observed_generation == rebalancer.metadata.generation:
            return _expired(rebalancer, now=now)
        observed = [_result(one, snapshot.bindings) for one in snapshot.listed]
        selected = _followed(rebalancer, snapshot)
        finished = not _unhandled(rebalancer)[len(snapshot.listed) :] and (selected is None or selected.complete)
        new = rebalancer.with_status(
            observed_workloads=tuple(sorted((*_handled(rebalancer), *observed), key=_order)),
            selected_workloads=selected,
            observed_generation=rebalancer.metadata.generation if finished else status.observed_generation,
            finish_time=to_seconds(now) if finished else None,
        )
        changes = (*_triggers(snapshot), *(() if new is rebalancer else (Put(new, rebalancer),)))
        wake_at = _expires(new) if finished else now
        return Decision(changes=changes, wake_at=wake_at, reason="Rebalanced")


def template_of(workload: RebalancedWorkload) -> Ref:
    """Return where a listed workload is kept."""
    return Ref(kind_key(workload.api_version, workload.kind), workload.namespace, workload.name)


def _handled(rebalancer: WorkloadRebalancer) -> tuple[ObservedWorkload, ...]:
    """Return the results that stay. A workload that is no longer listed stays where it was placed anew, and goes from
    the status where that failed."""
    listed = set(rebalancer.spec.workloads)
    known = rebalancer.status.observed_workloads
    return tuple(one for one in known if one.result and (one.workload in listed or one.result == SUCCESSFUL))


def _unhandled(rebalancer: WorkloadRebalancer) -> tuple[RebalancedWorkload, ...]:
    """Return the listed workloads without a result; one that has a result is never touched again."""
    handled = {one.workload for one in _handled(rebalancer)}
    return tuple(one for one in rebalancer.spec.workloads if one not in handled)


def _page(state: State, rebalancer: WorkloadRebalancer) -> tuple[Template, ...]:
    selector, so_far = rebalancer.spec.workload_selector, rebalancer.status.selected_workloads or SelectedWorkloads()
    if selector is None or so_far.complete:
        return ()
    key = kind_key(selector.api_version, selector.kind)
    after = (so_far.after_namespace, so_far.after_name)
    return tuple(state.list(key, namespace=selector.namespace, after=after, limit=AT_ONCE))


def _matching(rebalancer: WorkloadRebalancer, page: Sequence[Template]) -> Iterator[Template]:
    selector = rebalancer.spec.workload_selector
    if selector is None:
        return
    for one in page:
        if _selects(selector, one):
            yield one


def _selects(selector: WorkloadSelector, template: Template) -> bool:
    return selector.label_selector is None or matches(selector.label_selector, template.metadata.labels)


def _result(workload: RebalancedWorkload, bindings: Mapping[Ref, Binding]) -> ObservedWorkload:
    if binding_ref(template_of(workload)) in bindings:
        return ObservedWorkload(workload, SUCCESSFUL)
    return ObservedWorkload(workload, FAILED, REFERENCED_BINDING_NOT_FOUND)


def _followed(rebalancer: WorkloadRebalancer, snapshot: Rebalancing) -> SelectedWorkloads | None:
    """Return how far the selector has been followed after this page."""
    if rebalancer.spec.workload_selector is None:
        return rebalancer.status.selected_workloads
    so_far = rebalancer.status.selected_workloads or SelectedWorkloads()
    if so_far.complete or len(snapshot.listed) >= AT_ONCE:
        return so_far
    matching = [binding_ref(one.ref) for one in _matching(rebalancer, snapshot.page)]
    placed = sum(ref in snapshot.bindings for ref in matching)
    last = snapshot.page[-1].metadata if snapshot.page else None
    return replace(
        so_far,
        rebalanced=so_far.rebalanced + placed,
        unplaced=so_far.unplaced + len(matching) - placed,
        after_namespace=so_far.after_namespace if last is None else last.namespace,
        after_name=so_far.after_name if last is None else last.name,
        complete=len(snapshot.page) < AT_ONCE,
    )


def _triggers(snapshot: Rebalancing) -> Iterator[Put]:
    """Yield the bindings that ask for a fresh result since the rebalancer was made; later requests stand."""
    made = snapshot.subject.metadata.creation_timestamp
    assert made is not None, "a stored rebalancer has a creation time"
    for binding in snapshot.bindings.values():
        asked = binding.spec.reschedule_triggered_at
        if asked is None or asked < made:
            yield Put(binding.with_spec(reschedule_triggered_at=made), binding)


def _order(one: ObservedWorkload) -> tuple[str, str, str, str]:
    workload = one.workload
    return workload.api_version, workload.kind, workload.namespace, workload.name


def _expires(rebalancer: WorkloadRebalancer) -> datetime | None:
    ttl, finished = rebalancer.spec.ttl_seconds_after_finished, rebalancer.status.finish_time
    return None if ttl is None or finished is None else later(finished, ttl)


def _expired(rebalancer: WorkloadRebalancer, *, now: datetime) -> Decision:
    expires = _expires(rebalancer)
    if expires is None:
        return NOTHING
    if expires <= now:
        return Decision(changes=(deleting(rebalancer, now=now),), reason="Finished")
    return Decision(wake_at=expires)
