"""Numbers of rows that triggers keep with every statement, so that no request counts bindings, copies or evictions."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from apps.objects.models import Tally
from controlplane.insight.situation import EVICTIONS, TARGETS, TASKS
from controlplane.insight.situation import Tally as Counted
from controlplane.kinds.rows import BindingReadiness

BINDINGS: Final = "Binding"  # by kind (state) and namespace (reason)
ANSWERS: Final = BindingReadiness.__name__  # by verdict (state) and obstacles (reason)
OF_CLUSTER: Final = "AnswerOfCluster"  # by cluster, verdict (state) and obstacles (reason)
OF_NAMESPACE: Final = "AnswerOfNamespace"  # by namespace (state), and verdict and obstacles (reason)
_FIELDS: Final = Counted._fields


def tallies_of(counted: str) -> Iterator[Counted]:
    """Yield what is counted under a name, in the order of clusters, states and reasons. One query."""
    rows = Tally.objects.filter(counted=counted).order_by("cluster", "state", "reason")
    return (Counted(*row) for row in rows.values_list(*_FIELDS))


def evictions() -> Iterator[Counted]:
    """Yield the numbers of evictions by cluster, state and reason. One query."""
    return tallies_of(EVICTIONS)


def copies_on(clusters: Collection[str]) -> int:
    """Return how many bindings are placed on clusters; a binding counts once for each of them. One query."""
    return sum(Tally.objects.filter(counted=TARGETS, cluster__in=clusters).values_list("number", flat=True))


def bindings_on(cluster: str) -> int:
    """Return how many bindings are placed on a cluster, or have a copy there that leaves. One query."""
    found = Tally.objects.filter(counted__in=(TARGETS, TASKS), cluster=cluster)  # a binding is never counted as both
    return sum(found.values_list("number", flat=True))


def most_on_one(clusters: Collection[str]) -> int:
    """Return the number of bindings that are placed on the cluster with the most of them. One query."""
    return max(Tally.objects.filter(counted=TARGETS, cluster__in=clusters).values_list("number", flat=True), default=0)


def bindings() -> int:
    """Return the number of all bindings. One query."""
    return sum(Tally.objects.filter(counted=BINDINGS).values_list("number", flat=True))


def namespaces_of(kind: str) -> list[str]:
    """Return the namespaces that have bindings of a kind, by name. One query."""
    return list(Tally.objects.filter(counted=BINDINGS, state=kind).order_by("reason").values_list("reason", flat=True))


def answers(*, verdict: str = "", obstacle: str = "", cluster: str = "", namespace: str = "") -> int:
    """Return how many bindings have an answer about their readiness; "": whatever the verdict, the obstacles, the
    cluster or the namespace. Only a cluster or a namespace may be given. One query."""
    assert not (cluster and namespace), "no tally counts by both"
    if namespace:
        found = Tally.objects.filter(counted=OF_NAMESPACE, cluster="", state=namespace)
    else:
        found = Tally.objects.filter(counted=OF_CLUSTER if cluster else ANSWERS, cluster=cluster)
    return sum(
        number
        for state, reason, number in found.values_list("state", "reason", "number")
        if _says((reason if namespace else f"{state},{reason}").split(","), verdict, obstacle)
    )


def _says(answer: list[str], verdict: str, obstacle: str) -> bool:
    return verdict in ("", answer[0]) and obstacle in ("", *answer[1:])
