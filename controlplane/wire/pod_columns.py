"""The columns that `kubectl get` prints for pods and Events, whose cells are computed."""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

from controlplane.wire.columns import NONE, Document, at, computed, field
from controlplane.wire.resource import AGE, Column, age, parse_time


def _containers(document: Document) -> list[Document]:
    return at(document, "status.containerStatuses", []) or []


def _sidecars(document: Document) -> set[str]:
    """Return the names of the sidecars: init containers that keep running and count as containers of the pod."""
    return {c.get("name", "") for c in at(document, "spec.initContainers", []) if c.get("restartPolicy") == "Always"}


def _ready(document: Document) -> str:
    sidecars = _sidecars(document)
    statuses = _containers(document) + [
        status for status in at(document, "status.initContainerStatuses", []) if status.get("name") in sidecars
    ]
    ready = sum(1 for status in statuses if status.get("ready") and at(status, "state.running") is not None)
    return f"{ready}/{len(at(document, 'spec.containers', [])) + len(sidecars)}"


def _status(document: Document) -> str:
    """Return the STATUS of a pod: the first problem among its containers, else its phase."""
    starting = _init_status(document)
    shown = starting or _container_status(document)
    if at(document, "metadata.deletionTimestamp"):
        return "Unknown" if at(document, "status.reason") == "NodeLost" else "Terminating"
    return shown


def _phase(document: Document) -> str:
    return str(at(document, "status.reason") or at(document, "status.phase", ""))


def _container_status(document: Document) -> str:
    shown = _phase(document)
    running = False
    for status in reversed(_containers(document)):
        stopped = _waiting(status) or _terminated(status)
        if stopped:
            shown = stopped
        elif status.get("ready") and at(status, "state.running") is not None:
            running = True
    if shown == "Completed" and running:
        return "Running" if _condition(document, "Ready") else "NotReady"
    return shown


def _init_status(document: Document) -> str:
    """Return "Init:…" until all init containers have finished, then ""."""
    sidecars = _sidecars(document)
    total = len(at(document, "spec.initContainers", []))
    for index, status in enumerate(at(document, "status.initContainerStatuses", [])):
        terminated = at(status, "state.terminated")
        if terminated is not None and terminated.get("exitCode", 0) == 0:
            continue
        if status.get("name") in sidecars and status.get("started"):
            continue
        reason = _waiting(status) or _terminated(status)
        return f"Init:{index}/{total}" if reason in ("", "PodInitializing") else f"Init:{reason}"
    return ""


def _waiting(status: Document) -> str:
    return str(at(status, "state.waiting.reason", ""))


def _terminated(status: Document) -> str:
    terminated = at(status, "state.terminated")
    if terminated is None:
        return ""
    if terminated.get("reason"):
        return str(terminated["reason"])
    return f"Signal:{terminated['signal']}" if terminated.get("signal") else f"ExitCode:{terminated.get('exitCode', 0)}"


def _condition(document: Document, kind: str) -> bool:
    conditions = at(document, "status.conditions", [])
    return any(entry.get("type") == kind and entry.get("status") == "True" for entry in conditions)


def _restarts(document: Document, now: datetime) -> str:
    """Return the number of container restarts and the time since the last one, for example "3 (5m ago)"."""
    statuses = _containers(document)
    count = sum(status.get("restartCount", 0) for status in statuses)
    ended = [parse_time(at(status, "lastState.terminated.finishedAt")) for status in statuses]
    last = max((moment for moment in ended if moment is not None), default=None)
    return f"{count} ({age(last, now)} ago)" if count and last else str(count)


def _gates(document: Document) -> str:
    gates = at(document, "spec.readinessGates", [])
    passed = sum(1 for gate in gates if _condition(document, gate.get("conditionType", "")))
    return f"{passed}/{len(gates)}" if gates else NONE


POD: tuple[Column, ...] = (
    computed("Ready", _ready),
    computed("Status", _status),
    Column("Restarts", _restarts),
    AGE,
    field("IP", "status.podIP", NONE, wide=True),
    field("Node", "spec.nodeName", NONE, wide=True),
    field("Nominated Node", "status.nominatedNodeName", NONE, wide=True),
    computed("Readiness Gates", _gates, wide=True),
)


def _event_columns(involved: str, message: str, reporter: Callable[[Document], str]) -> tuple[Column, ...]:
    def last_seen(document: Document, now: datetime) -> str:
        paths = ("series.lastObservedTime", "lastTimestamp", "deprecatedLastTimestamp", "eventTime")
        return _ago(document, now, paths)

    def first_seen(document: Document, now: datetime) -> str:
        return _ago(document, now, ("firstTimestamp", "deprecatedFirstTimestamp", "eventTime"))

    def object_name(document: Document) -> str:
        return f"{at(document, f'{involved}.kind', '').lower()}/{at(document, f'{involved}.name', '')}"

    def count(document: Document) -> int:
        return int(at(document, "series.count") or document.get("count") or document.get("deprecatedCount") or 1)

    return (
        Column("Last Seen", last_seen),
        field("Type", "type"),
        field("Reason", "reason"),
        computed("Object", object_name),
        field("Subobject", f"{involved}.fieldPath", wide=True),
        computed("Source", reporter, wide=True),
        computed("Message", lambda d: str(d.get(message, "")).strip()),
        Column("First Seen", first_seen, priority=1),
        computed("Count", count, wide=True, kind="integer"),
        Column("Name", lambda d, now: at(d, "metadata.name", ""), format="name", priority=1),
    )


def _ago(document: Document, now: datetime, paths: tuple[str, ...]) -> str:
    moment: Any = next((found for path in paths if (found := at(document, path))), None)
    when = parse_time(moment)
    # A time with microseconds may be up to 1 s ahead of `now`, which has whole seconds.
    return age(min(when, now) if when and when - now < timedelta(seconds=1) else when, now)


def _source(document: Document) -> str:
    component = at(document, "source.component") or document.get("reportingComponent", "")
    host = at(document, "source.host", "")
    return f"{component}, {host}" if host else str(component)


EVENT = _event_columns("involvedObject", "message", _source)
EVENT_V1 = _event_columns("regarding", "note", lambda d: str(d.get("reportingController", "")))
