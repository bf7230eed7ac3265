"""What people may do to bindings and Works, which controllers write (semantics 1.3; D14)."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.kinds.binding import Binding
from tests.core.admitted import (
    UID,
    Document,
    config_map,
    created,
    fields,
    updated,
)


def binding(**spec: Any) -> Document:
    resource = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web", "namespace": "default"}
    return {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "web-deployment"},
        "spec": {"resource": resource, **spec},
    }


def test_people_may_edit_placement_and_tasks_of_a_binding() -> None:
    """D23."""
    old: Binding = created(binding()).object

    new = updated(
        binding(
            clusters=[{"name": "member2", "replicas": 1}],
            gracefulEvictionTasks=[{"fromCluster": "member1", "purgeMode": "Directly", "reason": "Manual"}],
        ),
        old,
    ).object

    assert new.metadata.generation == 2
    assert new.metadata.labels["resourcebinding.karmada.io/permanent-id"] == UID
    assert new.spec.graceful_eviction_tasks[0].from_cluster == "member1"


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        ({"clusters": [{"name": "a"}, {"name": "a"}]}, "spec.clusters[1].name"),
        ({"clusters": [{"name": "a", "replicas": -1}]}, "spec.clusters[0].replicas"),
        ({"gracefulEvictionTasks": [{"fromCluster": "a"}] * 2}, "spec.gracefulEvictionTasks[1].fromCluster"),
        (
            {"gracefulEvictionTasks": [{"fromCluster": "a", "purgeMode": "Soon"}]},
            "spec.gracefulEvictionTasks[0].purgeMode",
        ),
        ({"gracefulEvictionTasks": [{"fromCluster": "a", "reason": "x" * 33}]}, "spec.gracefulEvictionTasks[0].reason"),
    ],
)
def test_a_binding_that_cannot_be_is_refused_by_field(spec: Document, field: str) -> None:
    assert field in fields(binding(**spec))


def test_a_work_written_by_hand_is_pruned_and_marked_like_ours() -> None:
    manifest = config_map(uid="u", resourceVersion="3") | {"status": {"x": 1}}
    doc = {
        "apiVersion": "work.karmada.io/v1alpha1",
        "kind": "Work",
        "metadata": {"name": "mine"},
        "spec": {"workload": {"manifests": [manifest]}},
    }

    made = created(doc).object.manifest

    assert "status" not in made
    assert "uid" not in made["metadata"]
    assert made["metadata"]["labels"] == {"work.karmada.io/permanent-id": UID}
