"""The names that LIFEBOAT_CONTROLLERS may contain: our controllers, and Karmada's names for the same work."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from difflib import get_close_matches
from typing import Final

from controlplane.controllers import CONTROLLERS
from controlplane.settings.checks import SettingError

ALL: Final = "*"
NAMES: Final = tuple(controller.name for controller in CONTROLLERS)

_CLUSTER = ("cluster_taints", "unjoin")
_CLUSTER_STATUS = ("probes", "collection", "cluster_status")
_TAINT_MANAGER = ("eviction_queue", "evictions")
# The names of the flag --controllers of karmada-controller-manager, and those of its documentation.
ALIASES: Final[Mapping[str, tuple[str, ...]]] = {
    "taint-manager": _TAINT_MANAGER,
    "taint-manager-controller": _TAINT_MANAGER,
    "cluster": _CLUSTER,
    "cluster-controller": _CLUSTER,
    "clusterStatus": _CLUSTER_STATUS,
    "cluster-status-controller": _CLUSTER_STATUS,
    "clusterTaintPolicy": ("cluster_taints",),
    "gracefulEviction": ("graceful_eviction",),
    "gracefulEvictionController": ("graceful_eviction",),
    "RBGracefulEvictionController": ("graceful_eviction",),
    "CRBGracefulEvictionController": ("graceful_eviction",),
    "applicationFailover": ("application_failover",),
    "resource-binding-application-failover-controller": ("application_failover",),
    "cluster-resource-binding-application-failover-controller": ("application_failover",),
    "binding": ("works",),
    "binding-controller": ("works",),
    "ResourceBindingController": ("works",),
    "cluster-resource-binding-controller": ("works",),
    "bindingStatus": ("binding_status", "template_status"),
    "ttl-after-finished": ("finished_jobs",),  # of kube-controller-manager, which runs beside it
    "execution": ("execution",),
    "execution-controller": ("execution",),
    "workStatus": ("work_status",),
    "namespace": ("namespaces",),
    "propagation-policy-controller": ("policies", "policy_release"),
    "cluster-propagation-policy-controller": ("policies", "policy_release"),
    "dependencies-distributor": ("dependencies",),
    "workloadRebalancer": ("rebalancer",),
    "hpaScaleTargetMarker": ("hpa_scale_target_marker",),
    "hpa-scale-target-marker": ("hpa_scale_target_marker",),
    "deploymentReplicasSyncer": ("deployment_replicas_syncer",),
    "deployment-replicas-syncer": ("deployment_replicas_syncer",),
    "federatedResourceQuotaSync": ("federated_quotas",),
    "federatedResourceQuotaStatus": ("federated_quotas",),
    "federatedResourceQuotaEnforcement": ("federated_quotas",),
}


def resolved(words: Sequence[str]) -> tuple[str, ...]:
    """Return the names of our controllers for the words of LIFEBOAT_CONTROLLERS.

    Raises SettingError for an unknown name, and for a list with which no controller would run.
    """
    found: dict[str, None] = {}
    for word in words:
        sign = "-" if word.startswith("-") else ""
        for name in _named(word.removeprefix("-"), left_out=bool(sign)):
            found[sign + name] = None
    if not any(not name.startswith("-") for name in found):
        raise SettingError(f"no controller would run; write {','.join([ALL, *found])}")
    return tuple(found)


def _named(word: str, *, left_out: bool) -> tuple[str, ...]:
    if word in NAMES or (word == ALL and not left_out):
        return (word,)
    if word in ALIASES:
        return ALIASES[word]
    folded = {_folded(name): name for name in (*ALIASES, *NAMES)}
    near = get_close_matches(_folded(word), folded, n=1)
    hint = f'did you mean "{folded[near[0]]}"? ' if near else ""
    raise SettingError(f'unknown controller "{word}"; {hint}known are {", ".join(sorted(NAMES))}')


def _folded(name: str) -> str:
    return name.lower().replace("_", "-")
