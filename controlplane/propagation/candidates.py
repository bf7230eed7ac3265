"""The policies that may select a template, indexed so that each template is compared with few [policy-matching]."""

from __future__ import annotations

from collections.abc import Iterable

from controlplane.apimachinery.meta import Struct
from controlplane.kinds.policy import Policy
from controlplane.kinds.template import Template


class Candidates(Struct, frozen=True):
    """The policies that select a kind, indexed so that a template is compared with few of them."""

    by_object_name: dict[tuple[str, str], tuple[Policy, ...]]  # key: (namespace of the policy, name of the object)
    by_namespace: dict[str, tuple[Policy, ...]]  # key: namespace of the policy, "" if it is cluster-scoped

    @classmethod
    def of(cls, policies: Iterable[Policy], api_version: str, kind: str) -> Candidates:
        """Return the index of these policies. A policy is indexed by object name if all its selectors have a name."""
        by_object_name: dict[tuple[str, str], list[Policy]] = {}
        by_namespace: dict[str, list[Policy]] = {}
        for policy in policies:
            namespace = policy.metadata.namespace
            names = {
                selector.name
                for selector in policy.spec.resource_selectors
                if selector.kind == kind and selector.api_version == api_version
            }
            if all(names):
                for name in names:
                    by_object_name.setdefault((namespace, name), []).append(policy)
            else:
                by_namespace.setdefault(namespace, []).append(policy)
        return cls(
            {key: tuple(found) for key, found in by_object_name.items()},
            {key: tuple(found) for key, found in by_namespace.items()},
        )

    def possible(self, template: Template) -> tuple[Policy, ...]:
        """Return the policies that may select this template. Their selectors have still to be compared with it."""
        namespace, name = template.metadata.namespace, template.metadata.name
        found = self.by_object_name.get(("", name), ()) + self.by_namespace.get("", ())
        if namespace:
            found += self.by_object_name.get((namespace, name), ()) + self.by_namespace.get(namespace, ())
        return found


NO_CANDIDATES = Candidates({}, {})
