"""Clusters of another control plane are taken over, and given back, without a change of what runs on them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.command.importing import IMPORTER
from apps.command.program import app
from tests.acceptance.live import CLUSTERS, Live
from tests.acceptance.manifests import on, policy, workload

pytestmark = pytest.mark.slow

MEMBERS = ("member4", "member5")
WHERE = "/apis/apps/v1/namespaces/{}/deployments/web"


def lifeboat(fleet: Live, *arguments: str, code: int = 0) -> str:
    environment = {"KUBECONFIG": str(fleet.server.kubeconfig), "NO_COLOR": "1", "COLUMNS": "200"}
    done = CliRunner().invoke(
        app,
        [*arguments, "--yes", "--reason", "moving"] if arguments[0] != "compare" else list(arguments),
        env=environment,
    )
    assert done.exit_code == code, done.output
    return done.output


def exported(fleet: Live, ns: str, folder: Path) -> None:
    """Write what `kubectl get -o yaml` prints of another control plane with these clusters and this namespace."""
    work = "/apis/work.karmada.io/v1alpha2/namespaces"
    lists = {
        "policies": fleet.items(f"/apis/policy.karmada.io/v1alpha1/namespaces/{ns}/propagationpolicies"),
        "bindings": fleet.items(f"{work}/{ns}/resourcebindings"),
        "templates": fleet.items(f"/apis/apps/v1/namespaces/{ns}/deployments"),
        "clusters": [fleet.get(f"{CLUSTERS}/{name}") for name in MEMBERS],
        "secrets": [secret_of(fleet, name) for name in MEMBERS],
    }
    kinds = {"policies": ("policy.karmada.io/v1alpha1", "PropagationPolicy"), "templates": ("apps/v1", "Deployment")}
    kinds["bindings"] = ("work.karmada.io/v1alpha2", "ResourceBinding")
    for name, items in lists.items():
        version, kind = kinds.get(name, ("", ""))
        shown = [{**item, "apiVersion": version, "kind": kind} if version else item for item in items]
        (folder / f"{name}.yaml").write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": shown}))


def as_imported(fleet: Live, *paths: str) -> None:
    """Give objects the field manager of those that an import has created. A policy is known by its permanent id."""
    for path in paths:
        mark = {"metadata": {"annotations": {"example.io/exported": "yes"}}}
        assert fleet.ask("PATCH", path, mark, type="application/merge-patch+json", fieldManager=IMPORTER).status == 200


def secret_of(fleet: Live, name: str) -> dict[str, Any]:
    ref = fleet.get(f"{CLUSTERS}/{name}")["spec"]["secretRef"]
    return fleet.get(f"/api/v1/namespaces/{ref['namespace']}/secrets/{ref['name']}")


def on_members(fleet: Live, ns: str) -> dict[str, tuple[str, str]]:
    """Return uid and resourceVersion of the Deployment on each member."""
    found = {name: fleet.member(name, "GET", WHERE.format(ns))["metadata"] for name in MEMBERS}
    return {name: (one["uid"], one["resourceVersion"]) for name, one in found.items()}


def test_clusters_are_taken_over_and_given_back_without_a_write_until_the_word(
    fleet: Live, ns: str, tmp_path: Path
) -> None:
    fleet.apply(policy("web", on(*MEMBERS)), workload("web", 2), namespace=ns)
    fleet.until(lambda: fleet.settled(ns, "web-deployment"))
    placed, before = fleet.placed(ns, "web-deployment"), on_members(fleet, ns)
    exported(fleet, ns, tmp_path)
    source = ("--file", str(tmp_path))

    refused = lifeboat(fleet, "import", *source, "--undo", code=3)
    assert "cluster member4 is not observed" in refused

    lifeboat(fleet, "observe", *MEMBERS)
    as_imported(fleet, WHERE.format(ns), *(f"{CLUSTERS}/{name}" for name in MEMBERS))
    lifeboat(fleet, "import", *source, "--undo")
    assert not fleet.items(f"/apis/work.karmada.io/v1alpha2/namespaces/{ns}/resourcebindings")
    fleet.until(lambda: fleet.ask("GET", f"{CLUSTERS}/member4").status == 404)
    assert on_members(fleet, ns) == before

    taken = lifeboat(fleet, "import", *source)
    assert "next: stop the controllers of the other control plane" in taken
    assert "DIFFERENT" in taken
    assert fleet.placed(ns, "web-deployment") == placed
    assert on_members(fleet, ns) == before
    binding, template = fleet.binding(ns, "web-deployment"), fleet.get(WHERE.format(ns))
    assert [one["uid"] for one in binding["metadata"]["ownerReferences"]] == [template["metadata"]["uid"]]
    again = lifeboat(fleet, "import", *source)
    assert "0 objects written" in again

    lifeboat(fleet, "takeover", *MEMBERS)
    fleet.until(lambda: fleet.settled(ns, "web-deployment"))
    after = on_members(fleet, ns)
    assert {name: uid for name, (uid, _) in after.items()} == {name: uid for name, (uid, _) in before.items()}
    assert fleet.placed(ns, "web-deployment") == placed
