"""The changes of a what-if question, each as a sentence for the page that shows the question."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, cast

from controlplane.clusters.tolerations import spelled
from controlplane.insight import changes
from controlplane.insight.changes import Change


def change_sentence(change: Change) -> str:
    """Return what a question assumes, as a sentence."""
    return _SENTENCES[type(change)](cast(Any, change))


def _lost(change: changes.ClustersLost) -> str:
    parts = [
        _named("cluster", change.names),
        *(f"all clusters of {_named(word, values)}" for word, values in _groups(change) if values),
    ]
    is_one = len(change.names) == 1 and not change.regions and not change.providers
    return f"{_upper(' and '.join(part for part in parts if part))} {'stops' if is_one else 'stop'} answering"


def _groups(change: changes.ClustersLost) -> tuple[tuple[str, tuple[str, ...]], ...]:
    return ("region", change.regions), ("provider", change.providers)


def _deleted_cluster(change: changes.ClusterRemoved) -> str:
    copies = {"keep": "; its copies stay", "delete": "; its copies are deleted"}.get(change.copies, "")
    return f"Cluster {change.name} is deleted{copies}"


def _document(document: dict[str, Any]) -> str:
    metadata = document.get("metadata") or {}
    name = "/".join(part for part in (metadata.get("namespace"), metadata.get("name")) if part)
    return f"{document.get('kind', 'An object')} {name} is created or replaced"


def _rescheduled(change: changes.Rescheduled) -> str:
    if change.workload_selector is not None:
        return f"The scheduler chooses the clusters of selected workloads of kind {change.workload_selector.kind} again"
    names = [f"{one.kind} {'/'.join(filter(None, (one.namespace, one.name)))}" for one in change.workloads]
    return f"The scheduler chooses the clusters of {', '.join(names)} again"


def _named(word: str, names: tuple[str, ...]) -> str:
    """Return names with what they are; "": there are none."""
    return f"{word}{'' if len(names) == 1 else 's'} {', '.join(names)}" if names else ""


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]


_SENTENCES: Final[dict[type, Callable[[Any], str]]] = {
    changes.ClustersLost: _lost,
    changes.ClustersDrained: lambda it: (
        f"{_upper(_named('cluster', it.names))}: a Drain moves {it.rate:g} workloads a second from each"
    ),
    changes.TaintAdded: lambda it: f"Cluster {it.cluster} gets the taint {spelled(it.taint)}",
    changes.TaintRemoved: lambda it: f"The taint {it.key}:{it.effect} is removed from cluster {it.cluster}",
    changes.Cordoned: lambda it: f"{_upper(_named('cluster', it.names))}: no new copies, as after a cordon",
    changes.ClusterRemoved: _deleted_cluster,
    changes.GateOrRateChanged: lambda it: f"FailoverConfiguration/default sets {', '.join(sorted(it.configuration))}",
    changes.PolicyEdited: lambda it: _document(it.policy),
    changes.HoldEdited: lambda it: _document(it.hold),
    changes.Failback: lambda it: f"A Failback returns {it.rate:g} workloads a second to cluster {it.cluster}",
    changes.Rescheduled: _rescheduled,
    changes.ObjectsDeleted: lambda it: f"Deleted: {', '.join(it.refs)}",
}
