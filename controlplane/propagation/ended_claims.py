"""Ends the claims of policies that are gone [policy-matching]."""

from __future__ import annotations

from collections.abc import Iterator

from controlplane.engine.decision import Put
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


def of_binding(binding: Binding | None, template: Template, holder: Policy | None) -> Iterator[Put]:
    """Yield the write that releases a binding which no policy updates now, if its policy (`holder`) is gone."""
    if binding is None or matching.keeps(holder, template):
        return
    released = bindings.release(binding)
    if released is not binding:
        yield Put(released, binding)
