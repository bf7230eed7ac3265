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
    """Return a warning for each admission webhook that this API cannot call [webhook-services]."""
    if resource.key not in (MUTATING, VALIDATING):
        return []
    return [
        f"webhooks[{index}].clientConfig.service: there are no Services here, so {hook.get('name')} is not called; "
        "member clusters with a copy do. Write clientConfig.url for a webhook that this API is to call"
        for index, hook in enumerate(new.content.get("webhooks") or ())
        if (hook.get("clientConfig") or {}).get("service")
    ]
