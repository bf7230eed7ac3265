"""The kinds of objects that are stored. Importing this package registers them in `controlplane.kind.KINDS`.

Every kind, or family of kinds with one type, has a file or a folder. The file, or `__init__.py` of the folder, has its
types and constants. Beside them are its rules (defaults, validation, warnings), columns, indexes and field texts.
`DECLARED`, in the file or in `registration.py` of the folder, has what is registered.

To add a kind: write its file or folder, add a row to `_DECLARED`, and write a migration if it has a table of its own.
CONTRIBUTING.md, "A kind", has the other steps.
FailoverRecord, FleetReadiness, FleetStatus, Interpretation and PlacementReview are computed for every request. They
are not registered.
"""

from __future__ import annotations

from controlplane.kind import KINDS
from controlplane.kinds import (
    drain,
    drill,
    event,
    eviction,
    eviction_hold,
    failback,
    federated_quota,
    interpreter_customization,
    interpreter_webhook,
    maintenance_window,
    workload_rebalancer,
)
from controlplane.kinds.binding import BINDINGS, CLUSTER_RESOURCE_BINDING, RESOURCE_BINDING
from controlplane.kinds.binding import registration as _binding
from controlplane.kinds.binding.indexes import SELECTED
from controlplane.kinds.cluster import CLUSTER
from controlplane.kinds.cluster import registration as _cluster
from controlplane.kinds.configuration import FAILOVER_CONFIGURATION
from controlplane.kinds.configuration import registration as _configuration
from controlplane.kinds.event import EVENT
from controlplane.kinds.eviction import CLUSTER_EVICTION, EVICTION, EVICTIONS
from controlplane.kinds.eviction_hold import EVICTION_HOLD
from controlplane.kinds.federated_quota import FEDERATED_QUOTA
from controlplane.kinds.interpreter_customization import INTERPRETER_CUSTOMIZATION
from controlplane.kinds.interpreter_webhook import INTERPRETER_WEBHOOKS
from controlplane.kinds.maintenance_window import MAINTENANCE_WINDOW
from controlplane.kinds.override_policy import CLUSTER_OVERRIDE_POLICY, OVERRIDE_POLICIES, OVERRIDE_POLICY
from controlplane.kinds.override_policy import registration as _override_policy
from controlplane.kinds.owners import OWNER
from controlplane.kinds.policy import CLUSTER_PROPAGATION_POLICY, POLICIES, PROPAGATION_POLICY
from controlplane.kinds.policy import registration as _policy
from controlplane.kinds.taint_policy import CLUSTER_TAINT_POLICY
from controlplane.kinds.taint_policy import registration as _taint_policy
from controlplane.kinds.template import COMPANIONS, DEFINITION, LEASE, NAMESPACE, NEVER_PROPAGATED, SECRET
from controlplane.kinds.template import registration as _template
from controlplane.kinds.work import WORK
from controlplane.kinds.work import registration as _work
from controlplane.kinds.workload_rebalancer import WORKLOAD_REBALANCER

__all__ = [
    "BINDINGS",
    "CLUSTER",
    "CLUSTER_EVICTION",
    "CLUSTER_OVERRIDE_POLICY",
    "CLUSTER_PROPAGATION_POLICY",
    "CLUSTER_RESOURCE_BINDING",
    "CLUSTER_TAINT_POLICY",
    "COMPANIONS",
    "DEFINITION",
    "EVENT",
    "EVICTION",
    "EVICTIONS",
    "EVICTION_HOLD",
    "FAILOVER_CONFIGURATION",
    "FEDERATED_QUOTA",
    "INTERPRETER_CUSTOMIZATION",
    "INTERPRETER_WEBHOOKS",
    "KINDS",
    "LEASE",
    "MAINTENANCE_WINDOW",
    "NAMESPACE",
    "NEVER_PROPAGATED",
    "OVERRIDE_POLICIES",
    "OVERRIDE_POLICY",
    "OWNER",
    "POLICIES",
    "PROPAGATION_POLICY",
    "RESOURCE_BINDING",
    "SECRET",
    "SELECTED",
    "WORK",
    "WORKLOAD_REBALANCER",
]

_DECLARED = (
    *_cluster.DECLARED,
    *_policy.DECLARED,
    *_override_policy.DECLARED,
    *_taint_policy.DECLARED,
    *_binding.DECLARED,
    *_work.DECLARED,
    *_configuration.DECLARED,
    *federated_quota.DECLARED,
    *workload_rebalancer.DECLARED,
    *drain.DECLARED,
    *drill.DECLARED,
    *failback.DECLARED,
    *eviction.DECLARED,
    *eviction_hold.DECLARED,
    *maintenance_window.DECLARED,
    *interpreter_customization.DECLARED,
    *interpreter_webhook.DECLARED,
    *event.DECLARED,
    *_template.DECLARED,
)

for _kind in _DECLARED:
    KINDS.register(_kind)
