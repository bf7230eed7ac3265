"""Rules of roles: what a rule allows, and whether rules cover another rule."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from typing import Any

import msgspec

from controlplane.authorization.attributes import Request

ALL = "*"


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

    An empty list means that a user with the owned rules already has everything that the wanted rules allow.
    """
    return [part for rule in wanted for part in _parts(rule) if not any(_covers(own, part) for own in owned)]


def _parts(rule: Rule) -> Iterator[Rule]:
    """Yield rules with one verb, group, resource, name or URL each, which allow together what the rule allows."""
    names: Sequence[tuple[str, ...]] = [(name,) for name in rule.resource_names] or [()]
    for group, resource, name, verb in product(rule.api_groups, rule.resources, names, rule.verbs):
        yield Rule(verbs=(verb,), api_groups=(group,), resources=(resource,), resource_names=name)
    for url, verb in product(rule.non_resource_urls, rule.verbs):
        yield Rule(verbs=(verb,), non_resource_urls=(url,))


def _covers(own: Rule, part: Rule) -> bool:
    """Test whether a rule allows all that a part allows. A part has one verb, and one resource or one URL."""
    if not (ALL in own.verbs or part.verbs[0] in own.verbs):
        return False
    if part.non_resource_urls:
        url = part.non_resource_urls[0]
        return any(_url_matches(known, url) for known in own.non_resource_urls)
    group, resource = part.api_groups[0], part.resources[0]
    return (
        (ALL in own.api_groups or group in own.api_groups)
        and any(known in (ALL, resource) or _is_subresource_of(resource, known) for known in own.resources)
        and (not own.resource_names or (bool(part.resource_names) and part.resource_names[0] in own.resource_names))
    )


def _is_subresource_of(resource: str, known: str) -> bool:
    """Test whether `known` is "*/<subresource>" of the resource's own subresource."""
    _, _, subresource = resource.partition("/")
    return bool(subresource) and known == f"{ALL}/{subresource}"


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
    return "[" + " ".join(f'"{value}"' for value in values) + "]"
