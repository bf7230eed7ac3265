"""Which policy a template belongs to."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import matching
from tests.conformance.documents import typed

Document = dict[str, Any]


def run(given: Document) -> Document:
    template = Template.fold(given["object"])
    policies = [
        typed(document, Policy)
        for document in (*(given["propagationPolicies"] or ()), *(given["clusterPropagationPolicies"] or ()))
    ]
    chosen = matching.best(policies, template)
    return {
        "policy": None if chosen is None else _name(chosen),
        "implicitPriorities": {_path(one): matching.policy_precision(one, template) for one in policies},
    }


def _name(policy: Policy) -> Document:
    name = {"kind": policy.kind, "name": policy.metadata.name}
    return name if policy.cluster_scoped else {**name, "namespace": policy.metadata.namespace}


def _path(policy: Policy) -> str:
    place = policy.metadata
    return "/".join(filter(None, (policy.kind, place.namespace, place.name)))


def agree(expect: Document, result: Document) -> bool:
    return result == expect
