"""Kinds of other projects often have no strict schema: an object with a value of another type costs only itself
[resource-interpreter]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.controllers.execution import Execution
from controlplane.kinds.work import APPLIED_FAILED
from tests.builders.objects import applied, binding, cluster, work
from tests.builders.placements import placement
from tests.core.propagation_story import Story

KRUISE = "apps.kruise.io/v1alpha1"
CONTAINER = {"name": "c", "image": "nginx", "resources": {"requests": {"cpu": "1"}}}
PODS = {"spec": {"containers": [CONTAINER]}}


@pytest.mark.parametrize("replicas", ["inf", "1e400", "many", [1]])
def test_a_copy_whose_replicas_are_no_number_keeps_no_other_from_being_applied(replicas: Any) -> None:
    """An override policy may write anything there. The member refuses it, and it is tried again with others."""
    owner = binding("odd", placement("member1"), on={"member1": 2})
    manifest = {"apiVersion": KRUISE, "kind": "CloneSet", "metadata": {"name": "odd"}, "spec": {"replicas": replicas}}
    manifest["spec"]["template"] = PODS  # type: ignore[index]  # it is a dict
    odd = work("odd", of=owner, manifest=manifest, conditions=[applied("False", APPLIED_FAILED)])
    story = Story(cluster("member1"), owner, odd, work("web"))

    found = Execution().load(story.store, [odd.ref, work("web").ref])

    assert all(one is not None and one.keeps == 0 for one in found)
