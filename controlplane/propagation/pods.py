"""Pods run in member clusters: the workloads that a pod or a selector may belong to, and the message for a user.

kubectl asks the control plane for pods when it shows logs or runs commands. Such requests are refused at once, with the
clusters in which the pods are and the command for one of them [pods-are-in-members].
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import binding_name
from controlplane.apimachinery.selectors import LabelSelector
from controlplane.kinds.template import Template

WORKLOADS: Final = ("apps/Deployment", "apps/StatefulSet", "apps/DaemonSet", "apps/ReplicaSet", "batch/Job")
SHOWN: Final = 5  # clusters that a message names
COMMANDS: Final = {
    "logs": "logs {what}",
    "exec": "exec -it {what} -- COMMAND",
    "attach": "attach -it {what}",
    "port-forward": "port-forward {what} LOCAL:REMOTE",
    "debug": "debug -it POD --image=IMAGE",
    "cp": "cp POD:PATH PATH",
}
"""The rest of the command to paste, by the command of kubectl. Those with POD work with pods only."""
SUBRESOURCES: Final = {"log": "logs", "exec": "exec", "attach": "attach", "portforward": "port-forward"}
"""The command of kubectl that reads each subresource of a pod."""


def workloads_of(pod: str) -> list[tuple[str, str]]:
    """Return kind and name of the workloads that may have made a pod of this name, the likeliest first.

    A pod of a Deployment is called NAME-HASH-SUFFIX, a pod of other workloads NAME-SUFFIX.
    """
    found = [("Pod", pod)]
    first, _, _ = pod.rpartition("-")
    second, _, _ = first.rpartition("-")
    if second:
        found.append(("Deployment", second))
    if first:
        found += [(kind.partition("/")[2], first) for kind in WORKLOADS if kind != "apps/Deployment"]
    return found


def selected(templates: Iterable[Template], labels: LabelSelector) -> list[tuple[str, str]]:
    """Return kind and name of the workloads whose pods a selector selects."""
    return [(one.kind, one.metadata.name) for one in templates if labels.matches(_labels(one))]


def _labels(workload: Template) -> dict[str, str]:
    template = (workload.content.get("spec") or {}).get("template") or {}
    labels = (template.get("metadata") or {}).get("labels") or {}
    return {str(key): str(value) for key, value in labels.items()}


def binding_refs(kind: str, namespace: str, workloads: Sequence[tuple[str, str]]) -> dict[Ref, tuple[str, str]]:
    """Return the bindings of workloads in a namespace. `kind`: the kind of bindings."""
    return {Ref(kind, namespace, binding_name(what, name)): (what, name) for what, name in workloads}


def refusal(command: str, *, server: str, namespace: str, workload: tuple[str, str], clusters: Sequence[str]) -> str:
    """Return the message for a command about pods. `server`: the URL of the API, without a slash at its end.

    `workload` ("", ""): none was found, or the user may not know; `clusters` is then empty.
    """
    kind, name = workload
    what = "POD" if not kind else name if kind == "Pod" else f"{kind.lower()}/{name}"
    place = clusters[0] if clusters else "CLUSTER"
    line = f"kubectl --server {server}/apis/cluster.karmada.io/v1alpha1/clusters/{place}/proxy"
    line = f"{line} -n {namespace} {COMMANDS[command].format(what=what)}"
    if clusters:
        more = ", …" if len(clusters) > SHOWN else ""
        where = f"those of {what} run in {', '.join(clusters[:SHOWN])}{more}"
    elif kind:
        where = f"{what} is not placed on a cluster: kubectl describe {kind.lower()} {name} -n {namespace} shows why"
    else:
        where = f"kubectl get resourcebindings -n {namespace} shows the clusters of each workload"
    return f"the control plane runs no pods; {where}. Use: {line}"
