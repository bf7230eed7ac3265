"""The interpreters of built-in Kubernetes kinds [resource-interpreter]."""

from __future__ import annotations

from controlplane.interpret import aggregate, health, prune, references, reflect, replicas, retain
from controlplane.interpret.aggregate_job import finished
from controlplane.interpret.aggregate_job import job as aggregate_job
from controlplane.interpret.interpreter import Interpreter

_DEPLOYMENT = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "unavailableReplicas")
_STATEFUL_SET = ("replicas", "readyReplicas", "updatedReplicas", "availableReplicas", "currentReplicas")
_REPLICA_SET = ("replicas", "readyReplicas", "availableReplicas")
_DAEMON_SET = (
    "currentNumberScheduled",
    "desiredNumberScheduled",
    "numberAvailable",
    "numberMisscheduled",
    "numberReady",
    "updatedNumberScheduled",
    "numberUnavailable",
)
_BUDGET = ("currentHealthy", "desiredHealthy", "disruptionsAllowed", "expectedPods", "disruptedPods")
_JOB = ("active", "succeeded", "failed", "conditions", "startTime", "completionTime")
_SCALER = ("currentReplicas", "desiredReplicas")
_OF_TEMPLATE = references.of_pods("spec", "template", "spec")

NATIVE: dict[tuple[str, str], Interpreter] = {
    ("apps/v1", "Deployment"): Interpreter(
        replicas=replicas.of_workload,
        revise=replicas.with_replicas,
        prune=prune.deployment,
        healthy=health.deployment,
        ready=health.ready_replicas,
        reflect=reflect.status_fields(*_DEPLOYMENT, "observedGeneration", generations=True),
        aggregate=aggregate.sum_counters(*_DEPLOYMENT),
        retain=retain.replicas,
        dependencies=_OF_TEMPLATE,
    ),
    ("apps/v1", "StatefulSet"): Interpreter(
        replicas=replicas.of_workload,
        revise=replicas.with_replicas,
        healthy=health.deployment,
        ready=health.ready_replicas,
        reflect=reflect.status_fields(*_STATEFUL_SET, "observedGeneration", generations=True),
        aggregate=aggregate.sum_counters(*_STATEFUL_SET, generation_required=False),
        dependencies=references.of_stateful_set,
    ),
    ("apps/v1", "ReplicaSet"): Interpreter(
        replicas=replicas.of_workload,
        revise=replicas.with_replicas,
        healthy=health.replica_set,
        ready=health.ready_replicas,
        reflect=reflect.status_fields(*_REPLICA_SET, "observedGeneration", generations=True),
        aggregate=aggregate.sum_counters(*_REPLICA_SET),
        dependencies=_OF_TEMPLATE,
    ),
    ("apps/v1", "DaemonSet"): Interpreter(
        healthy=health.daemon_set,
        reflect=reflect.status_fields(*_DAEMON_SET, "observedGeneration", generations=True),
        aggregate=aggregate.sum_counters(*_DAEMON_SET),
        dependencies=_OF_TEMPLATE,
    ),
    ("v1", "Pod"): Interpreter(
        replicas=replicas.of_pod,
        healthy=health.pod,
        aggregate=aggregate.pod,
        final=lambda status: status.get("phase") in ("Succeeded", "Failed"),
        replaced=lambda status: status.get("phase") == "Failed",  # nothing else than this control plane replaces it
        retain=retain.pod,
        dependencies=references.of_pods("spec"),
    ),
    ("batch/v1", "Job"): Interpreter(
        replicas=replicas.of_job,
        revise=replicas.with_parallelism,
        prune=prune.job,
        reflect=reflect.status_fields(*_JOB),
        aggregate=aggregate_job,
        final=lambda status: bool(finished(status)),
        retain=retain.job,
        dependencies=_OF_TEMPLATE,
    ),
    ("batch/v1", "CronJob"): Interpreter(
        aggregate=aggregate.cron_job,
        dependencies=references.of_pods("spec", "jobTemplate", "spec", "template", "spec"),
    ),
    ("autoscaling/v2", "HorizontalPodAutoscaler"): Interpreter(
        reflect=reflect.status_fields(*_SCALER), aggregate=aggregate.only_sums(*_SCALER)
    ),
    ("v1", "Service"): Interpreter(
        healthy=health.service,
        prune=prune.service,
        reflect=reflect.service,
        aggregate=aggregate.service,
        retain=retain.service,
    ),
    ("networking.k8s.io/v1", "Ingress"): Interpreter(
        healthy=health.ingress, aggregate=aggregate.load_balancer, dependencies=references.of_ingress
    ),
    ("v1", "PersistentVolume"): Interpreter(
        prune=prune.persistent_volume, aggregate=aggregate.persistent_volume, retain=retain.persistent_volume
    ),
    ("v1", "PersistentVolumeClaim"): Interpreter(
        healthy=health.persistent_volume_claim,
        prune=prune.persistent_volume_claim,
        aggregate=aggregate.persistent_volume_claim,
        retain=retain.persistent_volume_claim,
    ),
    ("policy/v1", "PodDisruptionBudget"): Interpreter(
        healthy=health.pod_disruption_budget,
        reflect=reflect.status_fields(*_BUDGET),
        aggregate=aggregate.pod_disruption_budget,
    ),
    **{
        ("admissionregistration.k8s.io/v1", f"{type_}WebhookConfiguration"): Interpreter(
            prune=prune.injected_authority("webhooks", "clientConfig")
        )
        for type_ in ("Mutating", "Validating")
    },
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): Interpreter(
        prune=prune.injected_authority("spec", "conversion", "webhook", "clientConfig")
    ),
    ("apiregistration.k8s.io/v1", "APIService"): Interpreter(prune=prune.injected_authority("spec")),
    ("rbac.authorization.k8s.io/v1", "ClusterRole"): Interpreter(prune=prune.cluster_role, retain=retain.cluster_role),
    ("v1", "Secret"): Interpreter(prune=prune.secret, retain=retain.secret),
    ("v1", "ServiceAccount"): Interpreter(prune=prune.service_account, retain=retain.service_account),
    ("multicluster.x-k8s.io/v1alpha1", "ServiceImport"): Interpreter(dependencies=references.of_service_import),
}
