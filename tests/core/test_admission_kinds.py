"""Authors of admission webhooks that this API cannot call learn that [webhook-services]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.admission.webhooks import hooks_of
from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.settings import Settings

GROUP = "admissionregistration.k8s.io"
SERVICE = {"service": {"name": "hooks", "namespace": "default"}}
URL = {"url": "https://hooks.example.com/"}


def configuration(kind: str, *clients: Any) -> Template:
    hooks = [{"name": f"h{index}.example.com", "clientConfig": client} for index, client in enumerate(clients)]
    metadata = {"name": "hooks"}
    return Template.fold({"apiVersion": f"{GROUP}/v1", "kind": kind, "metadata": metadata, "webhooks": hooks})


@pytest.mark.parametrize("kind", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_a_service_is_not_called_and_its_author_is_warned(kind: str) -> None:
    made = configuration(kind, URL, SERVICE)

    (warning,) = KINDS[f"{GROUP}/{kind}"].warn(made, None, Settings())
    assert warning.startswith("webhooks[1].clientConfig.service: there are no Services here, so h1")
    assert [hook.name for hook in hooks_of([made.document()])] == ["h0.example.com"]


def test_mutating_admission_policies_are_not_served() -> None:
    """They would change nothing here [mutating-policies]."""
    assert KINDS.served(GROUP, "v1", "validatingadmissionpolicies") is not None
    assert KINDS.served(GROUP, "v1", "mutatingadmissionpolicies") is None
