"""`lifeboat interpret`: what the rules of a kind give for an object, also rules that are not stored yet."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

Lifeboat = Callable[..., Any]
DEPLOYMENT = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default", "generation": 1},
    "spec": {"replicas": 2, "template": {"spec": {"containers": [{"name": "c"}], "serviceAccountName": "web"}}},
    "status": {"observedGeneration": 1, "updatedReplicas": 2, "availableReplicas": 1},
}


def written(folder: Path, name: str, document: Any) -> str:
    path = folder / name
    path.write_text(yaml.safe_dump(document))
    return str(path)


def customization(kind: str, **scripts: str) -> dict[str, Any]:
    return {
        "apiVersion": "config.karmada.io/v1alpha1",
        "kind": "ResourceInterpreterCustomization",
        "metadata": {"name": "mine"},
        "spec": {
            "target": {"apiVersion": "apps/v1", "kind": kind},
            "customizations": {field: {"luaScript": text} for field, text in scripts.items()},
        },
    }


def test_every_operation_shows_its_rule_and_its_result(lifeboat: Lifeboat, tmp_path: Path) -> None:
    done = lifeboat("interpret", "-f", written(tmp_path, "web.yaml", DEPLOYMENT), "--replicas", "5")

    assert done.exit_code == 0
    assert "InterpretReplica: what is known of apps/v1 Deployment\n  replicas: 2" in done.stdout
    assert "InterpretHealth: what is known of apps/v1 Deployment\n  false" in done.stdout
    assert "InterpretComponent: there is no rule" in done.stdout
    assert "Retain" not in done.stdout


def test_a_customization_that_is_not_stored_is_used_and_its_errors_have_a_line(
    lifeboat: Lifeboat, tmp_path: Path
) -> None:
    healthy = "function InterpretHealth(object)\n  return object.status.availableReplicas == 1\nend"
    broken = "function GetReplicas(object)\n  return object.none.replicas\nend"
    mine = customization("Deployment", healthInterpretation=healthy, replicaResource=broken)
    object_, script = written(tmp_path, "web.yaml", DEPLOYMENT), written(tmp_path, "mine.yaml", mine)

    one = lifeboat("interpret", "-f", object_, "--customization", script, "--operation", "InterpretHealth")
    all_ = lifeboat("interpret", "-f", object_, "--customization", script)

    assert one.stdout == "InterpretHealth: customization mine\n  true\n"
    assert one.exit_code == 0
    assert "script:2: attempt to index field 'none'" in all_.stdout
    assert all_.exit_code == 1


def test_what_cannot_be_interpreted_is_refused_with_its_field(lifeboat: Lifeboat, tmp_path: Path) -> None:
    path = written(tmp_path, "web.yaml", DEPLOYMENT)

    unknown = lifeboat("interpret", "-f", path, "--operation", "Explode")
    missing = lifeboat("interpret", "-f", path, "--operation", "Retain")
    syntax = lifeboat(
        "interpret",
        "-f",
        path,
        "--customization",
        written(tmp_path, "c.yaml", customization("Deployment", retention="x(")),
    )

    assert (unknown.exit_code, missing.exit_code, syntax.exit_code) == (3, 3, 3)
    assert "spec.operations[0]" in unknown.stderr
    assert "Retain needs it" in missing.stderr
    assert "script:1:" in syntax.stderr
