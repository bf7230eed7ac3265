"""A kube-apiserver that plays the control plane of a Karmada, and members that look as one has written to them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from tests.lab import kubectl, listed

NAME: Final = "original"
NUMBER: Final = "9"  # its ports follow from it; members have 1 to 3
MANAGER: Final = "karmada-controller-manager"  # the field manager of what Karmada writes to members
OURS: Final = "lifeboat"
# Kinds of Karmada that an import reads: group, version, kind, plural, namespaced.
KINDS: Final = (
    ("cluster.karmada.io", "v1alpha1", "Cluster", "clusters", False),
    ("policy.karmada.io", "v1alpha1", "PropagationPolicy", "propagationpolicies", True),
    ("policy.karmada.io", "v1alpha1", "ClusterPropagationPolicy", "clusterpropagationpolicies", False),
    ("policy.karmada.io", "v1alpha1", "OverridePolicy", "overridepolicies", True),
    ("work.karmada.io", "v1alpha2", "ResourceBinding", "resourcebindings", True),
    ("work.karmada.io", "v1alpha2", "ClusterResourceBinding", "clusterresourcebindings", False),
    ("work.karmada.io", "v1alpha1", "Work", "works", True),
)
_WRITTEN_BY_SERVERS: Final = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "selfLink")


@contextmanager
def api_server(lab: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Run a kube-apiserver without controllers, with Karmada's definitions, and yield its kubeconfig."""
    alone = {**environment, "ONLY_APISERVER": "1"}
    subprocess.run([str(lab / "members.sh"), "start", NAME, NUMBER], env=alone, check=True)
    config = Path(environment["LAB"], "run", f"{NAME}.config")
    try:
        kubectl(config, "create", "-f", "-", given=_list(_definition(*kind) for kind in KINDS))
        for _, _, _, plural, _ in KINDS:
            kubectl(config, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
            kubectl(config, "get", plural, "-A")
        yield config
    finally:
        subprocess.run([str(lab / "members.sh"), "stop", NAME, "apiserver"], env=environment, check=True)
        subprocess.run([str(lab / "members.sh"), "stop", NAME, "etcd"], env=environment, check=True)


def _definition(group: str, version: str, kind: str, plural: str, namespaced: bool) -> dict[str, Any]:
    anything = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    served = {"name": version, "served": True, "storage": True, "schema": {"openAPIV3Schema": anything}}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Namespaced" if namespaced else "Cluster",
            "names": {"plural": plural, "singular": kind.lower(), "kind": kind, "listKind": f"{kind}List"},
            "versions": [served],
        },
    }


def fill(original: Path, source: Path, manifests: list[dict[str, Any]]) -> None:
    """Copy what a control plane `source` holds of these manifests, with clusters, bindings and Works, to `original`.

    Templates are created there again, so they have the defaults and the owners of fields of a real API server.
    """
    spaces = {one["metadata"]["namespace"] for one in manifests if "namespace" in one["metadata"]}
    clusters = listed(source, "clusters.cluster.karmada.io")
    secrets = [
        listed(source, "secret", ref["name"], "-n", ref["namespace"])[0]
        for one in clusters
        for ref in (one["spec"].get("secretRef"), one["spec"].get("impersonatorSecretRef"))
        if ref
    ]
    spaces |= {one["metadata"]["namespace"] for one in secrets}
    spaces |= {f"karmada-es-{one['metadata']['name']}" for one in clusters}
    # Definitions before their objects.
    for space in sorted(spaces - {"default"}):
        kubectl(original, "create", "namespace", space)
    templates = [one for one in manifests if not one["apiVersion"].startswith("policy.karmada.io/")]
    for one in sorted(templates, key=lambda one: one["kind"] != "CustomResourceDefinition"):
        if one["kind"] != "Namespace":
            _create(original, _as_stored(source, one))
        if one["kind"] == "CustomResourceDefinition":
            kubectl(original, "wait", "--for=condition=Established", "crd", one["metadata"]["name"])
    for one in (*secrets, *(found for kind in KINDS for found in _all(source, kind))):
        if one["metadata"].get("namespace", "default") in spaces | {"default"}:
            _create(original, one)


def _all(source: Path, kind: tuple[str, str, str, str, bool]) -> list[dict[str, Any]]:
    return listed(source, f"{kind[3]}.{kind[1]}.{kind[0]}", "-A")


def _as_stored(source: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Return a template as it was written, with the labels and annotations of its policy."""
    where = ["-n", manifest["metadata"]["namespace"]] if "namespace" in manifest["metadata"] else []
    group, _, version = manifest["apiVersion"].rpartition("/")
    resource = f"{manifest['kind']}.{version}.{group}" if group else manifest["kind"]
    stored = listed(source, resource, manifest["metadata"]["name"], *where)[0]["metadata"]
    marks = {key: stored[key] for key in ("labels", "annotations") if key in stored}
    return {**manifest, "metadata": {**manifest["metadata"], **marks}}


def _create(original: Path, one: dict[str, Any]) -> None:
    metadata = {key: value for key, value in one["metadata"].items() if key not in _WRITTEN_BY_SERVERS}
    metadata.pop("ownerReferences", None)
    kubectl(original, "create", "-f", "-", given={**one, "metadata": metadata})


def written_by_karmada(member: Path) -> int:
    """Make the objects on a member belong to Karmada's field manager, as of an update. Returns how many are there."""
    found = managed(member)
    for one in found:
        entries = [
            {**entry, "manager": MANAGER, "operation": "Update"} if entry["manager"] == OURS else entry
            for entry in one["metadata"]["managedFields"]
        ]
        patch = json.dumps([{"op": "replace", "path": "/metadata/managedFields", "value": entries}])
        space = one["metadata"].get("namespace")
        where = ["-n", space] if space else []
        group, _, version = one["apiVersion"].rpartition("/")
        resource = f"{one['kind']}.{version}.{group}" if group else one["kind"]
        kubectl(member, "patch", resource, one["metadata"]["name"], *where, "--type=json", "-p", patch)
    return len(found)


def managed(member: Path) -> list[dict[str, Any]]:
    """Return all objects on a member that a control plane manages."""
    kinds = kubectl(member, "api-resources", "--verbs=list,patch", "-o", "name").split()
    named = ",".join(one for one in kinds if not one.startswith("events"))
    return listed(member, named, "-A", "-l", "karmada.io/managed=true", "--show-managed-fields")


def _list(items: Iterator[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
