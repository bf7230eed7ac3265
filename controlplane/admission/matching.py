"""Which writes an admission policy or webhook concerns: its rules and selectors [admission-matching]."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

import msgspec

from controlplane.apimachinery.selectors import LabelSelector, matches
from controlplane.kinds.template.admission_kinds import GROUP, KEYS
from controlplane.wire.resource import Resource

Document = Mapping[str, Any]

CREATE, UPDATE, DELETE = "CREATE", "UPDATE", "DELETE"
EXACT, EQUIVALENT = "Exact", "Equivalent"
_EVERYTHING: Final = "*"
_NAMESPACES: Final = "Namespace"


class Subject(msgspec.Struct, frozen=True, kw_only=True):
    """A write as rules see it. `old` and `new` are the documents before and after it; None: there is none.

    versions: the versions in which the resource is served, besides that of the request.
    namespace_labels: the labels of the namespace of the object.
    """

    resource: Resource
    operation: str
    namespace: str
    name: str
    new: Document | None
    old: Document | None
    subresource: str = ""
    versions: tuple[str, ...] = ()
    namespace_labels: Mapping[str, str] = {}


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """One of the rules of a policy or webhook: what is written, and how."""

    operations: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    api_versions: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    scope: str = _EVERYTHING
    resource_names: tuple[str, ...] = ()

    def matches(self, subject: Subject, version: str) -> bool:
        """Test whether the rule concerns a write in a version of its resource."""
        resource = subject.resource
        return (
            _takes(self.operations, subject.operation)
            and _takes(self.api_groups, resource.group)
            and _takes(self.api_versions, version)
            and self._matches_resource(resource.plural, subject.subresource)
            and self._matches_scope(resource, subject)
            and (not self.resource_names or subject.name in self.resource_names)
        )

    def _matches_resource(self, plural: str, subresource: str) -> bool:
        for stated in self.resources:
            name, _, sub = stated.partition("/")
            if name in (_EVERYTHING, plural) and sub in (subresource, _EVERYTHING):
                return True
        return False

    def _matches_scope(self, resource: Resource, subject: Subject) -> bool:
        is_namespaced = resource.namespaced and resource.key != _NAMESPACES
        return self.scope == _EVERYTHING or (self.scope == "Namespaced") == is_namespaced


class Match(msgspec.Struct, frozen=True):
    """Rules and selectors of a policy, a binding or a webhook."""

    rules: tuple[Rule, ...]
    excluded: tuple[Rule, ...] = ()
    match_policy: str = EQUIVALENT
    namespaces: LabelSelector | None = None
    objects: LabelSelector | None = None

    def version(self, subject: Subject) -> str | None:
        """Return the API version in which a rule matches a write; None: no rule does. The request's own is tried first.

        With matchPolicy Equivalent, a rule for another version of the same resource concerns the write, too.
        """
        if subject.resource.group == GROUP and subject.resource.key in KEYS:
            return None  # otherwise a policy or webhook could forbid its own removal
        if not (self._takes_namespace(subject) and self._takes_object(subject)):
            return None
        own = subject.resource.version
        others = subject.versions if self.match_policy == EQUIVALENT else ()
        if any(rule.matches(subject, version) for rule in self.excluded for version in (own, *others)):
            return None
        for version in (own, *others):
            if any(rule.matches(subject, version) for rule in self.rules):
                return version
        return None

    def _takes_namespace(self, subject: Subject) -> bool:
        """Test the namespaceSelector. It looks at a Namespace's own labels, and takes other cluster-scoped objects."""
        if self.namespaces is None or self.namespaces.is_empty():
            return True
        if subject.resource.key == _NAMESPACES:
            own = subject.old if subject.operation == DELETE else subject.new
            return matches(self.namespaces, _labels(own))
        return not subject.resource.namespaced or matches(self.namespaces, subject.namespace_labels)

    def _takes_object(self, subject: Subject) -> bool:
        """Test the objectSelector: it takes a write if it takes the object before or after it."""
        if self.objects is None or self.objects.is_empty():
            return True
        return any(matches(self.objects, _labels(one)) for one in (subject.new, subject.old) if one is not None)


def match_of(document: Document, *, rules: str = "resourceRules") -> Match:
    """Return the rules and selectors of a document. `rules`: the field that has its rules."""
    return Match(
        _rules(document.get(rules) or ()),
        _rules(document.get("excludeResourceRules") or ()),
        document.get("matchPolicy") or EQUIVALENT,
        _selector(document.get("namespaceSelector")),
        _selector(document.get("objectSelector")),
    )


def _rules(stated: Iterable[Any]) -> tuple[Rule, ...]:
    return tuple(msgspec.convert(rule, Rule) for rule in stated)


def _selector(stated: Any) -> LabelSelector | None:
    return msgspec.convert(stated, LabelSelector) if stated else None


def _takes(stated: Sequence[str], value: str) -> bool:
    return _EVERYTHING in stated or value in stated


def _labels(document: Document | None) -> Mapping[str, str]:
    metadata = (document or {}).get("metadata") or {}
    return metadata.get("labels") or {}
