"""A kube-apiserver that plays the control plane of a Karmada, and members that look as one has written to them."""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Iterable, Iterator, Mapping
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
TRIES: Final = 10
DEFINITION: Final = "CustomResourceDefinition"
_DEFAULTING: Final = ("ResourceQuota", "LimitRange")  # would change or refuse what is created after them
# Karmada's API server runs without the first two, and no controller fills in what the third looks at.
_WITHOUT: Final = "--disable-admission-plugins=ServiceAccount,StorageObjectInUseProtection,ResourceQuota"
_WRITTEN_BY_SERVERS: Final = (
    *("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields", "ownerReferences"),
)


@contextmanager
def api_server(lab: Path, environment: Mapping[str, str]) -> Iterator[Path]:
    """Run a kube-apiserver without controllers, with Karmada's definitions, and yield its kubeconfig."""
    alone = {**environment, "ONLY_APISERVER": "1", "APISERVER_FLAGS": _WITHOUT}
    subprocess.run([str(lab / "members.sh"), "start", NAME, NUMBER], env=alone, check=True)
    config = Path(environment["LAB"], "run", f"{NAME}.config")
    try:
        kubectl(config, "create", "-f", "-", given=_list(_definition(*kind) for kind in KINDS))
        kubectl(config, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
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


def fill(original: Path, source: Path, manifest: Path) -> None:
    """Copy what a control plane `source` holds of a manifest, with clusters, bindings and Works, to `original`.

    Templates are created there again, so they have the defaults and the owners of fields of a real API server.
    """
    templates = [one for one in listed(source, "-f", str(manifest)) if "karmada.io" not in one["apiVersion"]]
    clusters = listed(source, "clusters.cluster.karmada.io")
    secrets = [
        listed(source, "secret", ref["name"], "-n", ref["namespace"])[0]
        for one in clusters
        for ref in (one["spec"].get("secretRef"), one["spec"].get("impersonatorSecretRef"))
        if ref
    ]
    spaces = {one["metadata"]["namespace"] for one in (*templates, *secrets) if "namespace" in one["metadata"]}
    spaces |= {f"karmada-es-{one['metadata']['name']}" for one in clusters}
    _create(original, [{"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}} for name in spaces])
    definitions = [one for one in templates if one["kind"] == DEFINITION]
    _create(original, definitions)
    kubectl(original, "wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    later = ("Namespace", DEFINITION, *_DEFAULTING)
    _create(original, [_plain(one) for one in templates if one["kind"] not in later])
    _create(original, [_plain(one) for one in templates if one["kind"] in _DEFAULTING])
    held = [found for kind in KINDS for found in listed(source, f"{kind[3]}.{kind[1]}.{kind[0]}", "-A")]
    _create(original, [*secrets, *(one for one in held if one["metadata"].get("namespace") in (*spaces, None))])


def _plain(one: dict[str, Any]) -> dict[str, Any]:
    """Return an object as its author wrote it: without the status, and without what servers filled in."""
    found = {key: value for key, value in one.items() if key != "status"}
    if one["kind"] == "Service" and one["spec"].get("clusterIP") != "None":
        found["spec"] = {key: value for key, value in one["spec"].items() if key not in ("clusterIP", "clusterIPs")}
    return found


def _create(original: Path, items: list[dict[str, Any]]) -> None:
    made = []
    for one in items:
        metadata = {key: value for key, value in one["metadata"].items() if key not in _WRITTEN_BY_SERVERS}
        made.append({**one, "metadata": metadata})
    kubectl(original, "create", "-f", "-", given=_list(made))


def written_by_karmada(member: Path) -> int:
    """Make the objects on a member belong to Karmada's field manager, as of an update. Returns how many are there."""
    for _ in range(TRIES):  # a controller may write at the same time
        ours = [one for one in managed(member) if any(entry["manager"] == OURS for entry in _owners(one))]
        if not ours:
            break
        for one in ours:
            one["metadata"]["managedFields"] = [
                {**entry, "manager": MANAGER, "operation": "Update"} if entry["manager"] == OURS else entry
                for entry in _owners(one)
            ]
        with contextlib.suppress(RuntimeError):
            kubectl(member, "replace", "-f", "-", given=_list(ours))
    assert not [one for one in managed(member) if any(entry["manager"] == OURS for entry in _owners(one))]
    return len(written(member))


def _owners(one: dict[str, Any]) -> list[dict[str, Any]]:
    return list(one["metadata"]["managedFields"])


def written(member: Path) -> list[dict[str, Any]]:
    """Return the objects that Karmada has written. Controllers copy its labels to others, as to EndpointSlices."""
    return [one for one in managed(member) if any(entry["manager"] == MANAGER for entry in _owners(one))]


def managed(member: Path) -> list[dict[str, Any]]:
    """Return all objects on a member that a control plane manages."""
    return objects(member, "-l", "karmada.io/managed=true", "--show-managed-fields")


def objects(member: Path, *arguments: str) -> list[dict[str, Any]]:
    """Return all objects on a member, without Events. `arguments`: of `kubectl get`."""
    kinds = kubectl(member, "api-resources", "--verbs=list,patch", "-o", "name").split()
    named = ",".join(one for one in kinds if not one.startswith("events"))
    return listed(member, named, "-A", *arguments)


def _list(items: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "List", "items": list(items)}
