"""First steps: what a fresh installation needs until a workload can fail over."""

from __future__ import annotations

from typing import NamedTuple

from apps.objects.configuration import configuration
from apps.policies.models import ClusterTaintPolicy, Policy
from controlplane.kinds.fleet_status import BAD, FleetStatusStatus


class Step(NamedTuple):
    """One of the three steps. `command`: how to take it."""

    title: str
    text: str
    command: str
    done: bool


def first_steps(status: FleetStatusStatus) -> tuple[Step, ...]:
    """Return the three steps of a fresh installation; (): all are taken, or there is an outage. At most two queries."""
    evict = _failures_evict()
    if status.clusters and status.workloads and (evict or status.severity == BAD):
        return ()
    return (
        Step(
            "Join a cluster",
            "Lifeboat probes it and shows it here within seconds.",
            "lifeboat join member1 --cluster-kubeconfig member1.kubeconfig",
            bool(status.clusters),
        ),
        Step(
            "Place a workload",
            "A PropagationPolicy selects it and chooses its clusters.",
            "kubectl apply -f docs/examples/duplicated.yaml",
            bool(status.workloads) or Policy.objects.exists(),
        ),
        Step(
            "Let failures evict",
            "The feature gate Failover is on, and a ClusterTaintPolicy adds NoExecute to clusters that fail.",
            "kubectl apply -f docs/examples/clustertaintpolicy.yaml",
            evict,
        ),
    )


def _failures_evict() -> bool:
    return configuration().settings().gate("Failover") and ClusterTaintPolicy.objects.exists()
