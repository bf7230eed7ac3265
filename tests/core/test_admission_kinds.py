"""Webhooks of admissionregistration.k8s.io have no effect on this API, and their authors learn that."""

from __future__ import annotations

import pytest

from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.settings import Settings

GROUP = "admissionregistration.k8s.io"


def made(name: str) -> Template:
    return Template.fold({"apiVersion": f"{GROUP}/v1", "kind": name, "metadata": {"name": "rule"}})


@pytest.mark.parametrize("name", ["MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"])
def test_the_author_of_a_webhook_is_warned_once_that_it_has_no_effect_here(name: str) -> None:
    kind = KINDS[f"{GROUP}/{name}"]

    (warning,) = kind.warn(made(name), None, Settings())
    assert warning.startswith(f"{name}: this API does not apply it")
    assert kind.warn(made(name), made(name), Settings()) == []


def test_the_author_of_a_policy_is_not_warned() -> None:
    name = "ValidatingAdmissionPolicy"
    assert KINDS[f"{GROUP}/{name}"].warn(made(name), None, Settings()) == []
