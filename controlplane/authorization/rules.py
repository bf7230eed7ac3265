"""Rules of roles: what a rule allows, and whether rules cover another rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any, NamedTuple

import msgspec

from controlplane.authorization.attributes import Request

ALL = "*"
MOST_PARTS = 20_000  # parts of the wanted rules that `uncovered` looks at
MOST_SPELLED = 100  # values of one field in a message


class Rule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule of a Role or ClusterRole. It is about resources, or about URLs that are not resources."""

    verbs: tuple[str, ...] = ()
    api_groups: tuple[str, ...] = ()
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")


EVERYTHING = (
    Rule(verbs=(ALL,), api_groups=(ALL,), resources=(ALL,)),
    Rule(verbs=(ALL,), non_resource_urls=(ALL,)),
)


def rules_in(document: dict[str, Any]) -> tuple[Rule, ...]:
    """Return the rules of a Role or ClusterRole document. Rules that cannot be read allow nothing and are left out."""
    rules = []
    for item in document.get("rules") or ():
        try:
            rules.append(msgspec.convert(_without_nulls(item), Rule))
        except msgspec.ValidationError:
            continue
    return tuple(rules)


def _without_nulls(item: Any) -> Any:
    return {key: value for key, value in item.items() if value is not None} if isinstance(item, dict) else item


def allows(rule: Rule, request: Request) -> bool:
    """Test whether a rule allows a request."""
    if not (request.verb in rule.verbs or ALL in rule.verbs):
        return False
    if not request.resource:
        return any(_url_matches(url, request.path) for url in rule.non_resource_urls)
    return (
        (request.api_group in rule.api_groups or ALL in rule.api_groups)
        and any(_resource_matches(resource, request) for resource in rule.resources)
        and (not rule.resource_names or request.name in rule.resource_names)
    )


def _resource_matches(resource: str, request: Request) -> bool:
    if resource in (ALL, request.qualified_resource):
        return True
    return bool(request.subresource) and resource == f"{ALL}/{request.subresource}"


def _url_matches(url: str, path: str) -> bool:
    return url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))


def uncovered(owned: Sequence[Rule], wanted: Iterable[Rule]) -> list[Rule]:
    """Return what the wanted rules allow and the owned rules do not, as rules for single verbs and resources.

    An empty list means that a user with the owned rules already has everything that the wanted rules allow. The parts
    of a rule multiply: 1000 verbs, groups and resources are 10⁹ parts. Beyond MOST_PARTS parts, a rule that no single
    owned rule covers is returned as it is.
    """
    held = [_Held.of(rule) for rule in owned]
    missing: list[Rule] = []
    parts = 0
    for rule in wanted:
        if any(own.covers(rule) for own in held):
            continue
        parts += _count_parts(rule)
        if parts > MOST_PARTS:
            missing.append(rule)
        else:
            missing += [part for part in _parts(rule) if not any(own.covers(part) for own in held)]
    return missing


def _count_parts(rule: Rule) -> int:
    of_resources = len(rule.api_groups) * len(rule.resources) * max(len(rule.resource_names), 1)
    return len(rule.verbs) * (of_resources + len(rule.non_resource_urls))


def _parts(rule: Rule) -> Iterator[Rule]:
    """Yield rules with one verb, group, resource, name or URL each, which allow together what the rule allows."""
    names: Sequence[tuple[str, ...]] = [(name,) for name in rule.resource_names] or [()]
    for group, resource, name, verb in product(rule.api_groups, rule.resources, names, rule.verbs):
        yield Rule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=name)
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule(verbs=(verb,), non_resource_urls=(url,))


class _Held(NamedTuple):
    """A rule that a user has, as sets."""

    verbs: frozenset[str]
    api_groups: frozenset[str]
    resources: frozenset[str]
    resource_names: frozenset[str]
    non_resource_urls: frozenset[str]

    @classmethod
    def of(cls, rule: Rule) -> _Held:
        return cls(*(frozenset(getattr(rule, field)) for field in cls._fields))

    def covers(self, rule: Rule) -> bool:
        """Test whether this rule allows all that another rule allows."""
        return (
            (ALL in self.verbs or self.verbs.issuperset(rule.verbs))
            and all(self._has_url(url) for url in rule.non_resource_urls)
            and (ALL in self.api_groups or self.api_groups.issuperset(rule.api_groups))
            and all(self._has_resource(resource) for resource in rule.resources)
            and (not self.resource_names or not rule.resources or self._has_names(rule.resource_names))
        )

    def _has_url(self, wanted: str) -> bool:
        return wanted in self.non_resource_urls or any(_url_matches(url, wanted) for url in self.non_resource_urls)

    def _has_resource(self, wanted: str) -> bool:
        _, _, subresource = wanted.partition("/")
        return (
            ALL in self.resources
            or wanted in self.resources
            or (bool(subresource) and f"{ALL}/{subresource}" in self.resources)
        )

    def _has_names(self, wanted: tuple[str, ...]) -> bool:
        return bool(wanted) and self.resource_names.issuperset(wanted)


def spelled(rule: Rule) -> str:
    """Return a rule as Kubernetes' messages spell it: {APIGroups:[""], Resources:["pods"], Verbs:["get"]}."""
    parts = (
        ("NonResourceURLs", rule.non_resource_urls),
        ("APIGroups", rule.api_groups),
        ("Resources", rule.resources),
        ("ResourceNames", rule.resource_names),
        ("Verbs", rule.verbs),
    )
    return "{" + ", ".join(f"{name}:{_list(values)}" for name, values in parts if values) + "}"


def _list(values: Iterable[str]) -> str:
    given = [f'"{value}"' for value in values]
    more = [f"and {len(given) - MOST_SPELLED} more"] if len(given) > MOST_SPELLED else []
    return "[" + " ".join([*given[:MOST_SPELLED], *more]) + "]"
