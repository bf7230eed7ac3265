"""Rebalancer: makes the scheduler choose clusters again, once for each workload of a WorkloadRebalancer.

The workloads are those that the WorkloadRebalancer lists, and those that its selector selects [workload-rebalancer].
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, ClassVar, Final

from msgspec.structs import replace

from controlplane.apimachinery.meta import Ref, Struct, kind_key, to_seconds
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
    listed_template,
    selects,
)
from controlplane.propagation.bindings import binding_ref
from controlplane.settings import Settings

AT_ONCE: Final = 500
"""Workloads that are rescheduled by one write. The others follow in the next ones."""


class RebalancerSnapshot(Struct, frozen=True):
    """A WorkloadRebalancer with its next workloads."""

    subject: WorkloadRebalancer
    listed: tuple[RebalancedWorkload, ...]  # listed workloads without a result
    page: tuple[Template, ...]  # at most AT_ONCE templates of the selected kind, whether the selector matches or not
    bindings: Mapping[Ref, Binding]


def _rebalancer_changed(old: WorkloadRebalancer | None, new: WorkloadRebalancer | None) -> Iterator[Ref]:
    if new is not None and (old is None or old.metadata.generation != new.metadata.generation):
        yield new.ref


_REQUEST = ("spec.reschedule_triggered_at", "status.last_scheduled_time")


class Rebalancer(Controller):
    """Key: a WorkloadRebalancer. Writes its status and `spec.rescheduleTriggeredAt` of the bindings.

    A batch is one WorkloadRebalancer, because its selector reads a page of a kind.
    """

    name: ClassVar[str] = "rebalancer"
    group: ClassVar[str] = "scheduling"
    keys: ClassVar[tuple[str, ...]] = (WORKLOAD_REBALANCER,)
    watches: ClassVar[tuple[Watch, ...]] = (Watch(WORKLOAD_REBALANCER, _rebalancer_changed),)
    owns: ClassVar[Ownership] = Ownership(
        {WORKLOAD_REBALANCER: ("status", "delete"), **dict.fromkeys(BINDINGS, _REQUEST)}
    )
    batch: ClassVar[int] = 1

    def load(self, state: State, refs: Sequence[Ref]) -> Sequence[RebalancerSnapshot | None]:
        found: dict[Ref, WorkloadRebalancer] = state.get(refs)
        workloads = {}
        for ref, rebalancer in found.items():
            listed = _without_result(rebalancer)[:AT_ONCE]
            page = _page(state, rebalancer) if len(listed) < AT_ONCE else ()
            workloads[ref] = (listed, page)
        wanted = {
            *(binding_ref(listed_template(workload)) for listed, _ in workloads.values() for workload in listed),
            *(
                binding_ref(template.ref)
                for ref, (_, page) in workloads.items()
                for template in _matching(found[ref], page)
            ),
        }
        bindings = state.get(wanted) if wanted else {}
        return [RebalancerSnapshot(found[ref], *workloads[ref], bindings) if ref in found else None for ref in refs]

    def decide(
        self, snapshot: RebalancerSnapshot, settings: Settings, *, now: datetime, answer: Any = None
    ) -> Decision:
        rebalancer = snapshot.subject
        if rebalancer.metadata.deletion_timestamp is not None:
            return NOTHING
        status = rebalancer.status
        if status.finish_time is not None and status.observed_generation == rebalancer.metadata.generation:
            return _expired(rebalancer, now=now)
        observed = [_result(workload, snapshot.bindings) for workload in snapshot.listed]
        selected = _selection_progress(rebalancer, snapshot)
        finished = not _without_result(rebalancer)[len(snapshot.listed) :] and (selected is None or selected.complete)
        new = rebalancer.with_status(
            observed_workloads=tuple(sorted((*_results_to_keep(rebalancer), *observed), key=_order)),
            selected_workloads=selected,
            observed_generation=rebalancer.metadata.generation if finished else status.observed_generation,
            finish_time=to_seconds(now) if finished else None,
        )
        changes = (*_reschedule_requests(snapshot), *(() if new is rebalancer else (Put(new, rebalancer),)))
        wake_at = _expires_at(new) if finished else now
        return Decision(changes=changes, wake_at=wake_at, reason="Rebalanced")


def _results_to_keep(rebalancer: WorkloadRebalancer) -> tuple[ObservedWorkload, ...]:
    """Return the results that stay in the status.

    The result of a workload that is no longer listed stays if it was successful, and is removed if it failed.
    """
    listed = set(rebalancer.spec.workloads)
    results = rebalancer.status.observed_workloads
    return tuple(
        result for result in results if result.result and (result.workload in listed or result.result == SUCCESSFUL)
    )


def _without_result(rebalancer: WorkloadRebalancer) -> tuple[RebalancedWorkload, ...]:
    """Return the listed workloads without a result. A workload with a result is never rescheduled again."""
    handled = {result.workload for result in _results_to_keep(rebalancer)}
    return tuple(workload for workload in rebalancer.spec.workloads if workload not in handled)


def _page(state: State, rebalancer: WorkloadRebalancer) -> tuple[Template, ...]:
    """Return the next page of templates that the selector has to be compared with."""
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
    yield from (template for template in page if selects(selector, template))


def _result(workload: RebalancedWorkload, bindings: Mapping[Ref, Binding]) -> ObservedWorkload:
    if binding_ref(listed_template(workload)) in bindings:
        return ObservedWorkload(workload, SUCCESSFUL)
    return ObservedWorkload(workload, FAILED, REFERENCED_BINDING_NOT_FOUND)


def _selection_progress(rebalancer: WorkloadRebalancer, snapshot: RebalancerSnapshot) -> SelectedWorkloads | None:
    """Return the progress of the selector after this page, for the status. None: there is no selector."""
    if rebalancer.spec.workload_selector is None:
        return rebalancer.status.selected_workloads
    so_far = rebalancer.status.selected_workloads or SelectedWorkloads()
    if so_far.complete or len(snapshot.listed) >= AT_ONCE:
        return so_far
    matching = [binding_ref(template.ref) for template in _matching(rebalancer, snapshot.page)]
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


def _reschedule_requests(snapshot: RebalancerSnapshot) -> Iterator[Put]:
    """Yield the writes that make the scheduler choose again. A binding with a later request is left as it is.

    The request has the time at which the rebalancer was created, which tools compare. Times have whole seconds, and a
    request counts only if it is later than the result. So a binding that was scheduled in this second, or since then
    because its workload was added to the list later, counts as scheduled in the second before.
    """
    created = snapshot.subject.metadata.creation_timestamp
    assert created is not None, "a stored rebalancer has a creation time"
    for _, binding in sorted(snapshot.bindings.items()):  # the scheduler decides in this order, as previews do
        triggered, last = binding.spec.reschedule_triggered_at, binding.status.last_scheduled_time
        if triggered is None or triggered < created:
            before = created - timedelta(seconds=1) if last is not None and last >= created else last
            asked = binding.with_spec(reschedule_triggered_at=created).with_status(last_scheduled_time=before)
            yield Put(asked, binding)


def _order(result: ObservedWorkload) -> tuple[str, str, str, str]:
    workload = result.workload
    return workload.api_version, workload.kind, workload.namespace, workload.name


def _expires_at(rebalancer: WorkloadRebalancer) -> datetime | None:
    """Return when a finished WorkloadRebalancer is deleted. None: never, or it is not finished."""
    ttl, finished = rebalancer.spec.ttl_seconds_after_finished, rebalancer.status.finish_time
    return None if ttl is None or finished is None else later(finished, ttl)


def _expired(rebalancer: WorkloadRebalancer, *, now: datetime) -> Decision:
    """Delete a finished WorkloadRebalancer once its ttlSecondsAfterFinished has passed."""
    expires = _expires_at(rebalancer)
    if expires is None:
        return NOTHING
    if expires <= now:
        return Decision(changes=(deleting(rebalancer, now=now),), reason="Finished")
    return Decision(wake_at=expires)
