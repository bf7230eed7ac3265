"""Commands of kubectl about running pods: they are refused at once, with the clusters of the pods and how to go there.

kubectl names its command in the header Kubectl-Command. Without this refusal it would wait for pods for a minute,
because a workload that has no pods here looks to kubectl like a workload whose pods are about to start
[pods-are-in-members].
"""

from __future__ import annotations

from rest_framework.request import Request

from apps.api.target import Target
from apps.objects.access import may
from apps.objects.store import store
from controlplane.apimachinery.errors import BadRequest
from controlplane.apimachinery.selectors import SelectorError, parse_label_selector
from controlplane.kinds import KINDS, RESOURCE_BINDING
from controlplane.propagation import pods

POD = "Pod"
MOST_READ = 500  # workloads of a kind among which those of a selector are searched
_COMMAND = "kubectl "


def check_pods(request: Request, target: Target) -> None:
    """Raise BadRequest for a request for pods that a command of kubectl about running pods has sent."""
    command = request.headers.get("Kubectl-Command", "").removeprefix(_COMMAND)
    if target.kind.key == POD and command in pods.COMMANDS:
        raise refused(request, command, target.namespace, target.name)


def refused(request: Request, command: str, namespace: str, name: str) -> BadRequest:
    """Return the error for a command about a pod, or about the pods of a selector (`name` "")."""
    workload, clusters = _placed(request, namespace, name)
    server = request.build_absolute_uri("/").rstrip("/")
    text = pods.refusal(command, server=server, namespace=namespace, workload=workload, clusters=clusters)
    return BadRequest(text, kind="pods", name=name)


def _placed(request: Request, namespace: str, name: str) -> tuple[tuple[str, str], list[str]]:
    """Return kind and name of the workload that a request is about, and its clusters.

    (("", ""), []): none is found, or the user may not list the bindings of the namespace.
    """
    if not namespace or not may(request.user, "list", KINDS[RESOURCE_BINDING], namespace=namespace):
        return ("", ""), []
    found = pods.workloads_of(name) if name else _selected(request, namespace)
    refs = pods.binding_refs(RESOURCE_BINDING, namespace, found)
    bindings = store().get(list(refs))
    for ref, workload in refs.items():
        if ref in bindings:
            return workload, [target.name for target in bindings[ref].spec.clusters]
    return ("", ""), []


def _selected(request: Request, namespace: str) -> list[tuple[str, str]]:
    try:
        labels = parse_label_selector(request.query_params.get("labelSelector", ""))
    except SelectorError as error:
        raise BadRequest(str(error)) from None
    if labels.is_empty():
        return []
    kept = store()
    return [
        workload
        for kind in pods.WORKLOADS
        for workload in pods.selected(kept.list(kind, namespace=namespace, limit=MOST_READ), labels)
    ]
