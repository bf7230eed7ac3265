"""The kinds of admissionregistration.k8s.io: which of them this API applies to its own writes."""

from __future__ import annotations

from typing import Any

from controlplane.kinds.template import Template
from controlplane.wire.resource import Resource

GROUP = "admissionregistration.k8s.io"
POLICY, BINDING = f"{GROUP}/ValidatingAdmissionPolicy", f"{GROUP}/ValidatingAdmissionPolicyBinding"
MUTATING, VALIDATING = f"{GROUP}/MutatingWebhookConfiguration", f"{GROUP}/ValidatingWebhookConfiguration"
KEYS = (POLICY, BINDING, MUTATING, VALIDATING)


def warnings(resource: Resource, new: Template, old: Template | None, settings: Any) -> list[str]:
    """Return the warning that an admission webhook has no effect on this API, when it is created."""
    if resource.key not in (MUTATING, VALIDATING) or old is not None:
        return []
    return [f"{resource.kind}: this API does not apply it to its own writes; member clusters with a copy of it do"]
