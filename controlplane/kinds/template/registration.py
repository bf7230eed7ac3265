"""Registers the kinds that Kubernetes has built in, except Event: as templates that policies propagate."""

from __future__ import annotations

from functools import partial
from typing import Any

from controlplane.apimachinery.errors import Cause
from controlplane.kind import Index, Kind
from controlplane.kinds.event import EVENT
from controlplane.kinds.other_version import also_served
from controlplane.kinds.owners import OWNED
from controlplane.kinds.policy.claim_index import claimed_by
from controlplane.kinds.template import (
    COMPANIONS,
    DEFINITION,
    NAMESPACE,
    NEVER_PROPAGATED,
    SECRET,
    Template,
    admission_kinds,
    built_in_rules,
    config_map_rules,
    rbac_rules,
    secret_rules,
    signing_request,
    token_secret,
)
from controlplane.kinds.template.claim_column import with_policy
from controlplane.kinds.template.companions_index import companion_keys
from controlplane.kinds.template.node_port_index import NODE_PORT, SERVICE, node_ports
from controlplane.kinds.template.scale_target_index import AUTOSCALER, SCALE_TARGET, scale_targets
from controlplane.kube import autoscaler_versions, walk
from controlplane.kube.initial_status import initial_status
from controlplane.wire import builtin, definition_rules
from controlplane.wire.resource import Resource

_CLAIMED = Index("policy", claimed_by, "controllers.policies: templates that a policy claims")
_COMPANIONS = Index("companions", companion_keys, "controllers.graceful_eviction: workloads that need an object")
_ACCOUNT = Index(
    token_secret.ACCOUNT, token_secret.account_keys, "controllers.token_secrets: token Secrets of a ServiceAccount"
)
_NODE_PORT = Index(NODE_PORT, node_ports, "admission.node_ports: the Service that uses a node port")
_SCALE_TARGET = Index(SCALE_TARGET, scale_targets, "controllers.hpa_scale_target_marker: autoscalers of a workload")
_NOT_TEMPLATES = {EVENT, "events.k8s.io/Event"}  # Event has a type of its own
_ROLES = tuple(f"{rbac_rules.GROUP}/{kind}" for kind in ("Role", "ClusterRole"))
_ROLE_BINDINGS = tuple(f"{rbac_rules.GROUP}/{kind}" for kind in ("RoleBinding", "ClusterRoleBinding"))
_RULES = {
    SECRET: secret_rules.validate,
    "ConfigMap": config_map_rules.validate,
    signing_request.KEY: signing_request.validate,
    **dict.fromkeys(_ROLES, rbac_rules.validate_role),
    **dict.fromkeys(_ROLE_BINDINGS, rbac_rules.validate_binding),
}
_DEFAULTS = {signing_request.KEY: signing_request.kept}
_STATUS_RULES = {signing_request.KEY: signing_request.validate_status}
_NORMALISE = {SECRET: secret_rules.normalise, **dict.fromkeys(_ROLE_BINDINGS, rbac_rules.normalise_binding)}
_CONVERTED = {AUTOSCALER: autoscaler_versions.converted}
# Kinds that have a status and no generation in Kubernetes. Kinds without a status have no generation either.
_WITHOUT_GENERATION = {NAMESPACE, "Node", "Pod", "PersistentVolume", "PersistentVolumeClaim", "Service"}


def _definition_faults(new: Template, old: Template | None, settings: Any) -> list[Cause]:
    return definition_rules.faults(new.document(), None if old is None else old.document())


def _definition(resource: Resource) -> Kind:
    return Kind(
        resource=with_policy(resource),
        type=Template,
        schema=lambda: builtin.schema(resource.group, resource.version, resource.kind),
        checked_schema=definition_rules.schema_to_check,
        fill=definition_rules.defaulted,
        validate=_definition_faults,
        validate_status=lambda new: definition_rules.status_faults(new.document()),
        warn=lambda new, old, settings: definition_rules.warnings(new.document()),
        indexes=(_CLAIMED, OWNED),
    )


def _template(resource: Resource) -> Kind:
    has_status = "status" in resource.subresources
    return Kind(
        resource=resource if resource.key in NEVER_PROPAGATED else with_policy(resource),
        type=Template,
        schema=lambda: builtin.schema(resource.group, resource.version, resource.kind),
        normalise=_NORMALISE.get(resource.key, lambda doc: []),
        checked_schema=lambda: walk.checked_schema(resource.group, resource.version, resource.kind),
        default=partial(built_in_rules.defaulted, resource, _DEFAULTS.get(resource.key)),
        validate=partial(built_in_rules.validate, resource, _RULES.get(resource.key)),
        warn=partial(admission_kinds.warnings, resource),
        validate_status=_STATUS_RULES.get(resource.key, lambda new: []),
        indexes=(
            *(_CLAIMED, OWNED),
            *((_COMPANIONS,) if resource.key in COMPANIONS else ()),
            *((_ACCOUNT,) if resource.key == SECRET else ()),
            *((_NODE_PORT,) if resource.key == SERVICE else ()),
            *((_SCALE_TARGET,) if resource.key == AUTOSCALER else ()),
        ),
        has_generation=has_status and resource.key not in _WITHOUT_GENERATION,
        has_status=has_status,
        initial_status=partial(initial_status, resource.key),
    )


def _in_all_versions(kind: Kind) -> Kind:
    """Return a kind, with its older version if that is served too."""
    for older in builtin.OLDER:
        if older.key == kind.key:
            return also_served(kind, with_policy(older), _CONVERTED[kind.key])
    return kind


DECLARED = tuple(
    _in_all_versions(_definition(resource) if resource.key == DEFINITION else _template(resource))
    for resource in builtin.RESOURCES
    if resource.key not in _NOT_TEMPLATES
)
