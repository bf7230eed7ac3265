"""The status of a template, computed from the statuses that member clusters report: sums, merges, the worst phase."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

Items = Sequence[AggregatedStatusItem]

_PHASES_OF_VOLUMES = ("Failed", "Pending", "Available", "Bound", "Released")
_PHASES_OF_PODS = ("Failed", "Pending", "Running", "Succeeded")
_BAD_PHASES = frozenset({"Failed", "Pending"})  # these hold for the template whatever other members report


def sum_counters(*fields: str, generation_required: bool = True) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of workloads: counters are summed, and all other fields of the template's status are kept.

    observedGeneration of the template is raised once every member has applied and observed its latest generation. With
    `generation_required` False, a member that does not report which generation of the template it was sent counts as
    well.
    """

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        reports = list(_reports(items))
        status = {**_status(doc), **sums_of(reports, *fields)}
        if sum(_caught_up(report, doc, generation_required=generation_required) for report in reports) == len(items):
            status["observedGeneration"] = (doc.get("metadata") or {}).get("generation")
        return _without_empty(status)

    return aggregate


def only_sums(*fields: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of kinds whose status contains only counters: each is summed over the members."""
    return lambda doc, items, now: _without_empty(sums_of(_reports(items), *fields))


def last_reported(*fields: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of kinds that run on one cluster: these fields are taken from the last cluster that reports a
    status."""

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        reports = list(_reports(items))
        last = reports[-1] if reports else {}
        return _without_empty({**_status(doc), **{field: last.get(field) for field in fields}})

    return aggregate


def sums_of(reports: Iterable[Document], *fields: str) -> Document:
    """Return the sum of each field over all reports. A missing field counts as 0."""
    found = list(reports)
    return {field: sum(int(report.get(field) or 0) for report in found) for field in fields}


def _caught_up(report: Document, doc: Document, *, generation_required: bool) -> bool:
    """Test whether a member was sent the template's latest generation and its controller has observed it."""
    generation = int((doc.get("metadata") or {}).get("generation") or 0)
    sent, seen = report.get("resourceTemplateGeneration"), int(report.get("observedGeneration") or 0)
    aligned = int(sent or 0) >= generation if generation_required or sent is not None else True
    return aligned and seen >= int(report.get("generation") or 0)


def service(doc: Document, items: Items, now: datetime) -> Document:
    """Return the load balancer addresses of all members for a LoadBalancer, and the unchanged status for other
    Services."""
    return load_balancer(doc, items, now) if (doc.get("spec") or {}).get("type") == "LoadBalancer" else _status(doc)


def load_balancer(doc: Document, items: Items, now: datetime) -> Document:
    """Return a status with the load balancer addresses of all members."""
    addresses = [
        address for report in _reports(items) for address in (report.get("loadBalancer") or {}).get("ingress") or ()
    ]
    return {"loadBalancer": {"ingress": addresses} if addresses else {}}


def persistent_volume_claim(doc: Document, items: Items, now: datetime) -> Document:
    """Return phase Lost if any member reports Lost, else the last phase that is not Bound, else Bound.

    Instead of Bound, no phase is returned while a member cannot be reached.
    """
    phase = "" if _any_lost(items) else "Bound"
    for report in _reports(items):
        reported = report.get("phase")
        if reported == "Lost":
            phase = "Lost"
        elif reported != "Bound" and phase != "Lost":
            phase = str(reported or "")
    return _without_empty({"phase": phase})


def persistent_volume(doc: Document, items: Items, now: datetime) -> Document:
    """Return the worst phase of all members. A member without a status counts as Pending.

    No phase is returned while a member cannot be reached, unless another member reports Failed or Pending.
    """
    return _without_empty({"phase": _worst_phase(items, _PHASES_OF_VOLUMES)})


def pod(doc: Document, items: Items, now: datetime) -> Document:
    """Return the worst phase of all members and the states of all their containers.

    A member without a status counts as Pending. The phase is Unknown while a member cannot be reached, unless another
    member reports Failed or Pending.
    """
    containers = {
        field: [
            {"ready": bool(container.get("ready")), "state": container.get("state") or {}}
            for report in _reports(items)
            for container in report.get(field) or ()
        ]
        for field in ("containerStatuses", "initContainerStatuses")
    }
    return _without_empty({"phase": _worst_phase(items, _PHASES_OF_PODS, unreachable="Unknown"), **containers})


def pod_disruption_budget(doc: Document, items: Items, now: datetime) -> Document:
    """Return the sums of all members. Each disrupted pod is listed as `<cluster>/<pod>`."""
    sums = sums_of(_reports(items), "currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    disrupted = {
        f"{item.cluster_name}/{name}": since
        for item in items
        for name, since in ((item.status or {}).get("disruptedPods") or {}).items()
    }
    return _without_empty({**sums, "disruptedPods": disrupted})


def cron_job(doc: Document, items: Items, now: datetime) -> Document:
    """Return the active Jobs of all members, and the latest of their schedule and success times."""
    reports = list(_reports(items))
    active = [job for report in reports for job in report.get("active") or ()]
    times = {field: max(_texts(reports, field), default="") for field in ("lastScheduleTime", "lastSuccessfulTime")}
    return _without_empty({"active": active, **times})


def _worst_phase(items: Items, phases: Sequence[str], *, unreachable: str = "") -> str:
    """Return the first of `phases` that any member reports. A member without a status counts as Pending.

    `unreachable`: the phase while a member cannot be reached, unless another member reports Failed or Pending.
    """
    reported = {
        "Pending" if item.status is None else str(item.status.get("phase")) for item in items if not _is_lost(item)
    }
    if _any_lost(items):
        phases = [phase for phase in phases if phase in _BAD_PHASES]
        return next((phase for phase in phases if phase in reported), unreachable)
    return next((phase for phase in phases if phase in reported), "")


def _any_lost(items: Items) -> bool:
    return any(map(_is_lost, items))


def _is_lost(item: AggregatedStatusItem) -> bool:
    """Test whether the status of a member is not known, because it cannot be reached. A final status is known."""
    return item.status is None and item.out_of_reach_since is not None


def _reports(items: Items) -> Iterator[Document]:
    return (item.status for item in items if item.status is not None)


def _texts(reports: Iterable[Document], field: str) -> list[str]:
    """Return the values of a field in the reports that have it. Times in UTC with whole seconds sort as text."""
    return [str(report[field]) for report in reports if report.get(field)]


def _without_empty(status: dict[str, Any]) -> Document:
    """Return the status without empty and zero values, as Kubernetes' omitempty leaves them out."""
    return {field: value for field, value in status.items() if value}


def _status(doc: Document) -> Document:
    status = doc.get("status")
    return status if isinstance(status, dict) else {}
