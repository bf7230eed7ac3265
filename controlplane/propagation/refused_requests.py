"""Copies of a template whose requests are not in its binding, because quotas have no room for them: they keep the
content that the binding was counted with [federated-quotas]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from msgspec.structs import replace

from controlplane.apimachinery.names import TEMPLATE_GENERATION_ANNOTATION
from controlplane.estimate.quota import changes, most
from controlplane.interpret import InterpretationFailed
from controlplane.kinds.binding import Binding
from controlplane.kinds.federated_quota import FederatedResourceQuota
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work, Workload
from controlplane.propagation import bindings, matching

Document = dict[str, Any]


def are_refused(binding: Binding, template: Template, quotas: Sequence[FederatedResourceQuota]) -> bool:
    """Test whether a template requests more than its binding of what quotas of its namespace limit.

    controllers.policies has no room for that, or has not seen it yet. A binding that a user wrote without a policy does
    not follow its template. Raises Unanswered.
    """
    if not quotas or binding.spec.placement is None:
        return False
    if matching.claimant(template) is None and not bindings.is_made_for(binding, template):
        return False
    try:
        asked = bindings.with_requests(binding, template)
    except InterpretationFailed:
        return False  # controllers.policies reports it
    return bool(most(quotas, changes(binding, asked)))


def with_accepted_content(
    work: Work, accepted: Work | None, *, replicas: int, revise: Callable[[Document, int], Document] | None
) -> Work:
    """Return a Work with the content of an accepted copy, and with so many replicas. None: there is no such copy."""
    if accepted is None:
        return work
    manifest = accepted.manifest if revise is None else revise(accepted.manifest, replicas)
    made_from = (accepted.manifest["metadata"].get("annotations") or {}).get(TEMPLATE_GENERATION_ANNOTATION, "")
    metadata = work.manifest["metadata"]
    annotations = {**metadata["annotations"], TEMPLATE_GENERATION_ANNOTATION: made_from}
    content = {**manifest, "metadata": {**metadata, "annotations": annotations}}
    return replace(work, spec=replace(work.spec, workload=Workload((content,))))
