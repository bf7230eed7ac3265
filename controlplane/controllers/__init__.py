"""All controllers, in the order in which a group runs them. Those about clusters come before those about workloads."""

from __future__ import annotations

from controlplane.controllers.application_failover import ApplicationFailover
from controlplane.controllers.binding_status import BindingStatus
from controlplane.controllers.bootstrap_tokens import BootstrapTokens
from controlplane.controllers.cluster_roles import ClusterRoles
from controlplane.controllers.cluster_status import ClusterStatus
from controlplane.controllers.cluster_taints import ClusterTaints
from controlplane.controllers.collection import Collection
from controlplane.controllers.definitions import Definitions
from controlplane.controllers.dependencies import Dependencies
from controlplane.controllers.deployment_replicas_syncer import DeploymentReplicasSyncer
from controlplane.controllers.drains import Drains
from controlplane.controllers.drills import Drills
from controlplane.controllers.eviction_pending import EvictionPending
from controlplane.controllers.eviction_queue import EvictionQueue
from controlplane.controllers.eviction_records import EvictionRecords
from controlplane.controllers.evictions import Evictions
from controlplane.controllers.execution import Execution
from controlplane.controllers.failbacks import Failbacks
from controlplane.controllers.federated_quotas import FederatedQuotas
from controlplane.controllers.finished_jobs import FinishedJobs
from controlplane.controllers.fleet_names import FleetNamesCleanup
from controlplane.controllers.fleet_watch import FleetWatch
from controlplane.controllers.garbage import Garbage
from controlplane.controllers.graceful_eviction import GracefulEviction
from controlplane.controllers.hpa_scale_target_marker import HpaScaleTargetMarker
from controlplane.controllers.impersonators import Impersonators
from controlplane.controllers.namespace_content import NamespaceContent
from controlplane.controllers.namespaces import Namespaces
from controlplane.controllers.owners import Owners
from controlplane.controllers.policies import Policies
from controlplane.controllers.policy_release import PolicyRelease
from controlplane.controllers.probes import Probes
from controlplane.controllers.readiness import Readiness
from controlplane.controllers.rebalancer import Rebalancer
from controlplane.controllers.reservations import Reservations
from controlplane.controllers.scheduler import Scheduler
from controlplane.controllers.signing_requests import SigningRequests
from controlplane.controllers.template_status import TemplateStatus
from controlplane.controllers.token_secrets import TokenSecrets
from controlplane.controllers.unjoin import Unjoin
from controlplane.controllers.work_status import WorkStatus
from controlplane.controllers.works import Works
from controlplane.engine.controller import Controller

__all__ = ["CONTROLLERS"]

CONTROLLERS: tuple[Controller, ...] = (
    ClusterStatus(),
    FleetWatch(),
    ClusterTaints(),
    EvictionQueue(),
    Evictions(),
    ApplicationFailover(),
    Drains(),
    Failbacks(),
    GracefulEviction(),
    Rebalancer(),
    Scheduler(),
    FederatedQuotas(),
    Reservations(),
    FleetNamesCleanup(),
    HpaScaleTargetMarker(),
    DeploymentReplicasSyncer(),
    Policies(),
    PolicyRelease(),
    Dependencies(),
    Works(),
    Unjoin(),
    Namespaces(),
    Impersonators(),
    NamespaceContent(),
    Definitions(),
    Owners(),
    ClusterRoles(),
    TokenSecrets(),
    BootstrapTokens(),
    SigningRequests(),
    BindingStatus(),
    TemplateStatus(),
    FinishedJobs(),
    EvictionPending(),
    EvictionRecords(),
    Drills(),
    Garbage(),
    Readiness(),
    Probes(),
    Collection(),
    Execution(),
    WorkStatus(),
)
