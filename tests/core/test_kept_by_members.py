"""What members set on their objects: it is neither sent to other members nor set back [resource-interpreter]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.clusters.drift import differences
from controlplane.clusters.questions import retaining
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, works
from tests.builders.objects import START, policy

Document = dict[str, Any]


def sent(document: Document) -> Document:
    """Return what members are sent of a template."""
    template = Template.fold({**document, "metadata": {"uid": "uid", "namespace": "default", **document["metadata"]}})
    binding = bindings.create(template, policy(), gates={}, now=START)
    return works.rendering(binding, template).manifest


ROLE: Document = {
    "apiVersion": "rbac.authorization.k8s.io/v1",
    "kind": "ClusterRole",
    "metadata": {"name": "monitoring"},
    "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"monitoring": "true"}}]},
    "rules": [{"apiGroups": [""], "resources": ["pods"], "verbs": ["get"]}],
}
THEIRS = [{"apiGroups": [""], "resources": ["services"], "verbs": ["list"]}]


@pytest.mark.parametrize("theirs", [THEIRS, [], None])
def test_an_aggregated_role_has_the_rules_that_its_member_fills_in(theirs: Any) -> None:
    """Those here are of the roles here. The controller of a member would put its own back for ever."""
    held = {**ROLE, "rules": theirs}

    manifest = sent(ROLE)
    kept = retaining(manifest, held)

    assert "rules" not in manifest
    assert kept.get("rules") == theirs
    assert differences(kept, held) == []
    assert retaining(ROLE, held).get("rules") == theirs, "an override policy or a user's Work may have set rules"


def test_a_role_that_is_not_aggregated_has_its_own_rules() -> None:
    plain = {name: value for name, value in ROLE.items() if name != "aggregationRule"}

    assert sent(plain)["rules"] == ROLE["rules"]
    assert retaining(plain, {**plain, "rules": THEIRS})["rules"] == ROLE["rules"]
