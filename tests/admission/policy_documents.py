"""The documents of the cases: parameters, bindings and policies, and the objects that their writes send."""

from __future__ import annotations

from tests.admission.authorizer_cases import ASKING, ASKING_SPECS
from tests.admission.policy_cases import ALL, GROUP, LABEL, NAMESPACE, PLAIN, PLAIN_SPECS, Node, Write, filled

POLICIES = (*PLAIN, *ASKING)
SPECS = (*PLAIN_SPECS, *ASKING_SPECS)


def documents(case: int) -> tuple[list[Node], list[Node], Node]:
    """Return the parameters, the bindings and the policy of a case."""
    stated, name = POLICIES[case], f"policy-{case}"
    params = [
        {"apiVersion": "v1", "kind": "ConfigMap", "data": param["data"]}
        | {"metadata": {"name": param["name"], "namespace": NAMESPACE, "labels": param["labels"]}}
        for param in filled(stated.params, case)
    ]
    bindings = []
    for index, binding in enumerate(filled(stated.bindings, case)):
        matched = {"objectSelector": {"matchLabels": {LABEL: str(case)}}, **binding.pop("matchResources", {})}
        metadata = {"name": f"{name}-{index}"}
        made = {"policyName": name, **binding, "matchResources": matched}
        bindings.append(_document("ValidatingAdmissionPolicyBinding", metadata, made))
    made = filled({"matchConstraints": ALL, **stated.spec}, case)
    made["matchConstraints"] = {"objectSelector": {"matchLabels": {LABEL: str(case)}}, **made["matchConstraints"]}
    return params, bindings, _document("ValidatingAdmissionPolicy", {"name": name}, made)


def _document(kind: str, metadata: Node, made: Node) -> Node:
    return {"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "spec": made}


def written(case: int, write: Write) -> Node:
    """Return the ConfigMap that a write of a case sends."""
    labels = {LABEL: str(case), **(write.labels or {})}
    metadata = {"name": f"case{case}", "namespace": NAMESPACE, "labels": labels}
    return {"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": write.data or {}}
