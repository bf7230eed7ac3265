"""One status for a template out of what its members say: sums, merges, the worst phase (semantics 4)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import datetime
from typing import Any

from controlplane.interpret.interpreter import Document
from controlplane.kinds.binding import AggregatedStatusItem

Items = Sequence[AggregatedStatusItem]

_PHASES_OF_VOLUMES = ("Failed", "Pending", "Available", "Bound", "Released")
_PHASES_OF_PODS = ("Failed", "Pending", "Running", "Succeeded")


def sum_counters(*fields: str, marked: bool = True) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of workloads: counters are summed, the rest of the template's status is kept.

    The template's observedGeneration follows once every member has caught up with it; `marked` False accepts members
    that do not say which generation of the template they were sent.
    """

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        reports = list(_reports(items))
        status = {**_status(doc), **sums_of(reports, *fields)}
        if sum(_caught_up(report, doc, marked=marked) for report in reports) == len(items):
            status["observedGeneration"] = (doc.get("metadata") or {}).get("generation")
        return _without_empty(status)

    return aggregate


def only_sums(*fields: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of kinds whose status is nothing but sums."""
    return lambda doc, items, now: _without_empty(sums_of(_reports(items), *fields))


def last_reported(*fields: str) -> Callable[[Document, Items, datetime], Document]:
    """Return the rule of kinds that run on one cluster: some fields as the last cluster that reports has them."""

    def aggregate(doc: Document, items: Items, now: datetime) -> Document:
        reports = list(_reports(items))
        last = reports[-1] if reports else {}
        return _without_empty({**_status(doc), **{field: last.get(field) for field in fields}})

    return aggregate


def sums_of(reports: Iterable[Document], *fields: str) -> Document:
    """Return the sums of some fields of reports."""
    found = list(reports)
    return {field: sum(int(report.get(field) or 0) for report in found) for field in fields}


def _caught_up(report: Document, doc: Document, *, marked: bool) -> bool:
    """Test whether a member runs at least this generation of the template, and its controller has seen it."""
    generation = int((doc.get("metadata") or {}).get("generation") or 0)
    sent, seen = report.get("resourceTemplateGeneration"), int(report.get("observedGeneration") or 0)
    aligned = int(sent or 0) >= generation if marked or sent is not None else True
    return aligned and seen >= int(report.get("generation") or 0)


def service(doc: Document, items: Items, now: datetime) -> Document:
    """The addresses of all members; only a LoadBalancer has any."""
    return load_balancer(doc, items, now) if (doc.get("spec") or {}).get("type") == "LoadBalancer" else _status(doc)


def load_balancer(doc: Document, items: Items, now: datetime) -> Document:
    """The addresses of all members, and nothing else."""
    addresses = [one for report in _reports(items) for one in (report.get("loadBalancer") or {}).get("ingress") or ()]
    return {"loadBalancer": {"ingress": addresses} if addresses else {}}


def persistent_volume_claim(doc: Document, items: Items, now: datetime) -> Document:
    """Lost anywhere is lost; then anything that is not bound; else bound."""
    phase = "Bound"
    for report in _reports(items):
        said = report.get("phase")
        if said == "Lost":
            phase = "Lost"
        elif said != "Bound" and phase != "Lost":
            phase = str(said or "")
    return _without_empty({"phase": phase})


def persistent_volume(doc: Document, items: Items, now: datetime) -> Document:
    """The worst phase; a member that says nothing is pending."""
    return _without_empty({"phase": _worst_phase(items, _PHASES_OF_VOLUMES)})


def pod(doc: Document, items: Items, now: datetime) -> Document:
    """The worst phase, and how the containers of all members are; a member that says nothing is pending."""
    containers = {
        field: [
            {"ready": bool(one.get("ready")), "state": one.get("state") or {}}
            for report in _reports(items)
            for one in report.get(field) or ()
        ]
        for field in ("containerStatuses", "initContainerStatuses")
    }
    return _without_empty({"phase": _worst_phase(items, _PHASES_OF_PODS), **containers})


def pod_disruption_budget(doc: Document, items: Items, now: datetime) -> Document:
    """Sums; pods that are being disrupted are told apart by their cluster."""
    sums = sums_of(_reports(items), "currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods")
    disrupted = {
        f"{item.cluster_name}/{name}": since
        for item in items
        for name, since in ((item.status or {}).get("disruptedPods") or {}).items()
    }
    return _without_empty({**sums, "disruptedPods": disrupted})


def cron_job(doc: Document, items: Items, now: datetime) -> Document:
    """All active Jobs, and the latest times."""
    reports = list(_reports(items))
    active = [one for report in reports for one in report.get("active") or ()]
    times = {field: max(_texts(reports, field), default="") for field in ("lastScheduleTime", "lastSuccessfulTime")}
    return _without_empty({"active": active, **times})


def _worst_phase(items: Items, phases: Sequence[str]) -> str:
    """Return the first of the phases that a member is in; what was not reported yet is Pending."""
    said = {"Pending" if item.status is None else str(item.status.get("phase")) for item in items}
    return next((phase for phase in phases if phase in said), "")


def _reports(items: Items) -> Iterator[Document]:
    return (item.status for item in items if item.status is not None)


def _texts(reports: Iterable[Document], field: str) -> list[str]:
    """Return the values of a field that are there; times in UTC and whole seconds sort as text."""
    return [str(report[field]) for report in reports if report.get(field)]


def _without_empty(status: dict[str, Any]) -> Document:
    """Return the status without what is empty or zero: absent and zero are one (Kubernetes' omitempty)."""
    return {field: value for field, value in status.items() if value}


def _status(doc: Document) -> Document:
    status = doc.get("status")
    return status if isinstance(status, dict) else {}
