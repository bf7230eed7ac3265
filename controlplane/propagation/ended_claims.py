"""What is left of a policy or template that is gone: claims of a policy, and the binding of a template of the same name
[policy-matching]."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import cast

from msgspec.structs import replace

from controlplane.engine.decision import Delete, Put, deleting
from controlplane.interpret import InterpretationFailed
from controlplane.kinds.binding import Binding
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings, matching
from controlplane.propagation.lazy_activation import LAZY_ANNOTATION


def without_claim(template: Template) -> Template:
    """Return a template that belongs to no policy."""
    labels, annotations = matching.unclaimed(template.metadata.labels, template.metadata.annotations)
    annotations.pop(LAZY_ANNOTATION, None)
    return template.with_meta(labels=labels, annotations=annotations)


def of_template(template: Template, claimed: Policy | None) -> Iterator[Put]:
    """Yield the write that removes a claim which has ended. `claimed`: the policy that the claim names."""
    unclaimed = template if matching.keeps(claimed, template) else without_claim(template)
    if unclaimed is not template:
        yield Put(unclaimed, template)


def of_held(binding: Binding | None, template: Template | None, holder: Policy | None) -> Iterator[Put]:
    """Yield the write that removes a claim which has ended from a binding of which nothing else may change now."""
    if binding is None or template is None or matching.keeps(holder, template):
        return
    released = bindings.release(binding)
    if released is not binding:
        yield Put(released, binding)


def of_binding(
    binding: Binding | None, template: Template, holder: Policy | None, *, now: datetime
) -> Iterator[Put | Delete]:
    """Yield the change of a binding that no policy updates now, if its policy (`holder`) or its template is gone.

    The binding of an earlier template of this name is deleted, as if the new template had been created later. An
    attached binding continues with the new template, because workloads need it.
    """
    if binding is None:
        return
    resource, uid = binding.spec.resource, template.metadata.uid
    if resource.uid and resource.uid != uid:
        if binding.spec.placement is not None:
            yield deleting(binding, now=now)
            return
        resource = replace(resource, uid=uid, resource_version=template.metadata.resource_version)
    released = binding if matching.keeps(holder, template) else bindings.release(binding)
    new = released.with_spec(resource=resource)
    if new is not binding:
        yield Put(new, binding)


def of_unselected(
    binding: Binding | None, template: Template, holder: Policy | None, *, now: datetime
) -> Iterator[Put | Delete]:
    """Yield the change of the binding of a template that no policy selects.

    Its copies follow the template, so its requests do as well: they count in quotas, and where it is placed again.
    Raises Unanswered.
    """
    changes = list(of_binding(binding, template, holder, now=now))
    deleted = any(not isinstance(change, Put) or change.new.metadata.deletion_timestamp for change in changes)
    if binding is None or deleted or not bindings.is_made_for(binding, template):
        yield from changes
        return
    released = cast(Binding, changes[0].new) if changes and isinstance(changes[0], Put) else binding
    try:
        new = bindings.with_requests(released, template)
    except InterpretationFailed:
        new = released
    if new is not binding:
        yield Put(new, binding)
