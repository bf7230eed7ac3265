"""First steps: what a fresh installation needs until a workload can fail over."""

from __future__ import annotations

from typing import NamedTuple

from apps.failover.steering import GATE, apply_line, gate_of
from apps.objects.configuration import configuration
from apps.policies.models import ClusterTaintPolicy, Policy
from controlplane.kinds.fleet_status import BAD, FleetStatusStatus


class Step(NamedTuple):
    """One of the three steps. `command`: how to take it, one command a line."""

    title: str
    text: str
    command: str
    done: bool


def first_steps(status: FleetStatusStatus) -> tuple[Step, ...]:
    """Return the three steps of a fresh installation; (): all are taken, or there is an outage. At most two queries."""
    lacking = _lacking()
    if status.clusters and status.workloads and (not lacking or status.severity == BAD):
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
            "kubectl apply -f docs/examples/divided.yaml",
            bool(status.workloads) or Policy.objects.exists(),
        ),
        Step(
            "Let failures evict",
            "The feature gate Failover is on, and a ClusterTaintPolicy adds NoExecute to clusters that fail.",
            "\n".join(lacking),
            not lacking,
        ),
    )


def _lacking() -> list[str]:
    """Return the commands for what failures need to evict: the gate, and a policy that adds taints."""
    gate = [] if configuration().settings().gate(GATE) else [apply_line(gate_of(on=True), part="gate")]
    policy = [] if ClusterTaintPolicy.objects.exists() else ["kubectl apply -f docs/examples/noexecute.yaml"]
    return gate + policy
