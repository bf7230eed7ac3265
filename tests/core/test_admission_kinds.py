"""Kinds of admissionregistration.k8s.io have no effect on this API, and their authors learn that."""

from __future__ import annotations

import pytest

from controlplane.kind import KINDS
from controlplane.kinds.template import Template
from controlplane.settings import Settings

GROUP = "admissionregistration.k8s.io"


@pytest.mark.parametrize(
    "name",
    [
        "MutatingWebhookConfiguration",
        "ValidatingAdmissionPolicy",
        "ValidatingAdmissionPolicyBinding",
        "ValidatingWebhookConfiguration",
    ],
)
def test_the_author_of_an_admission_rule_is_warned_once_that_it_has_no_effect_here(name: str) -> None:
    kind = KINDS[f"{GROUP}/{name}"]
    made = Template.fold({"apiVersion": f"{GROUP}/v1", "kind": name, "metadata": {"name": "rule"}})

    (warning,) = kind.warn(made, None, Settings())
    assert warning.startswith(f"{name}: this API does not apply it")
    assert kind.warn(made, made, Settings()) == []
