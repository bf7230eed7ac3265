"""Audit policies: how much is recorded of a request, by the first rule that matches it [audit-policy]."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from controlplane.authorization.attributes import Caller, Request

NONE, METADATA, REQUEST, REQUEST_RESPONSE = LEVELS = ("None", "Metadata", "Request", "RequestResponse")
API_VERSION, KIND = "audit.k8s.io/v1", "Policy"
READING: Final = frozenset(("get", "list", "watch", "head", "options"))
UNAUTHENTICATED, FORBIDDEN, THROTTLED = 401, 403, 429
ALL: Final = "*"


class PolicyInvalid(Exception):
    """A policy that cannot be read. The text names the rule, the field and the value."""


class GroupResources(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """Resources of a group. No resources: all of the group. "pods/log" is a subresource, "pods/*" all of them."""

    group: str = ""
    resources: tuple[str, ...] = ()
    resource_names: tuple[str, ...] = ()


class AuditRule(msgspec.Struct, frozen=True, rename="camel", forbid_unknown_fields=True):
    """A rule of an audit policy. A field without values matches everything."""

    level: str
    users: tuple[str, ...] = ()
    user_groups: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    resources: tuple[GroupResources, ...] = ()
    namespaces: tuple[str, ...] = ()
    non_resource_urls: tuple[str, ...] = msgspec.field(default=(), name="nonResourceURLs")
    omit_stages: tuple[str, ...] = ()
    omit_managed_fields: bool | None = None

    def matches(self, caller: Caller, request: Request) -> bool:
        """Test whether the rule is about a request of a user."""
        if self.users and caller.name not in self.users:
            return False
        if self.user_groups and not set(self.user_groups) & set(caller.groups):
            return False
        if self.verbs and ALL not in self.verbs and request.verb not in self.verbs:
            return False
        if not (self.resources or self.namespaces or self.non_resource_urls):
            return True
        return self._matches_resource(request) if request.resource else self._matches_url(request.path)

    def _matches_resource(self, request: Request) -> bool:
        if self.namespaces and request.namespace not in self.namespaces:
            return False
        if not self.resources:
            return bool(self.namespaces)
        return any(_selects(entry, request) for entry in self.resources)

    def _matches_url(self, path: str) -> bool:
        return any(
            url in (ALL, path) or (url.endswith(ALL) and path.startswith(url.rstrip(ALL)))
            for url in self.non_resource_urls
        )


def _selects(entry: GroupResources, request: Request) -> bool:
    if entry.group != request.api_group:
        return False
    if entry.resource_names and request.name not in entry.resource_names:
        return False
    if not entry.resources:
        return True
    wanted = {ALL, request.qualified_resource}
    if request.subresource:
        wanted |= {f"{request.resource}/{ALL}", f"{ALL}/{request.subresource}"}
        wanted.discard(ALL)
        return not wanted.isdisjoint(entry.resources) or f"{ALL}/{ALL}" in entry.resources
    return not wanted.isdisjoint(entry.resources)


class AuditPolicy(msgspec.Struct, frozen=True):
    """The rules in force. A request that no rule matches is not recorded, unless it is refused."""

    rules: tuple[AuditRule, ...]

    def level(self, caller: Caller, request: Request) -> str:
        """Return the level of the first rule that matches. If none does, it is the level "None"."""
        return next((rule.level for rule in self.rules if rule.matches(caller, request)), NONE)


def is_refusal(request: Request, code: int) -> bool:
    """Test whether an answer is a refusal: of any request for its user, of a write for any reason."""
    return code in (UNAUTHENTICATED, FORBIDDEN, THROTTLED) or (request.verb not in READING and code >= 400)


AGENTS: Final = "system:lifeboat:agents"
DEFAULT: Final = AuditPolicy(
    (
        # Reports of agents are many thousand writes an hour. The change log has them.
        AuditRule(
            NONE,
            user_groups=(AGENTS,),
            resources=(
                GroupResources("cluster.karmada.io", ("clusters/status",)),
                GroupResources("work.karmada.io", ("works/status",)),
                GroupResources("coordination.k8s.io", ("leases",)),
            ),
        ),
        AuditRule(NONE, resources=(GroupResources("", ("events",)), GroupResources("events.k8s.io", ("events",)))),
        # Questions about rights store nothing.
        AuditRule(NONE, resources=(GroupResources("authorization.k8s.io"), GroupResources("authentication.k8s.io"))),
        AuditRule(METADATA, verbs=("get",), resources=(GroupResources("", ("secrets",)),)),
        AuditRule(METADATA, resources=(GroupResources("cluster.karmada.io", ("clusters/proxy",)),)),
        AuditRule(NONE, verbs=tuple(sorted(READING))),
        AuditRule(METADATA),
    )
)


def policy_of(document: Any) -> AuditPolicy:
    """Return the policy of a document of audit.k8s.io/v1, kind Policy. Raises PolicyInvalid."""
    if not isinstance(document, dict) or (document.get("apiVersion"), document.get("kind")) != (API_VERSION, KIND):
        raise PolicyInvalid(f"the document is not of apiVersion {API_VERSION}, kind {KIND}")
    rules = document.get("rules")
    if not isinstance(rules, list) or not rules:
        raise PolicyInvalid("rules: at least one rule is required")
    return AuditPolicy(tuple(_rule(number, item) for number, item in enumerate(rules)))


def _rule(number: int, item: Any) -> AuditRule:
    try:
        rule = msgspec.convert(item, AuditRule)
    except msgspec.ValidationError as error:
        raise PolicyInvalid(f"rules[{number}]: {error}") from error
    if rule.level not in LEVELS:
        raise PolicyInvalid(f'rules[{number}].level: "{rule.level}" is not one of {", ".join(LEVELS)}')
    if rule.non_resource_urls and (rule.resources or rule.namespaces):
        raise PolicyInvalid(
            f"rules[{number}]: nonResourceURLs stand in one rule with resources or namespaces; write two rules"
        )
    _check_urls(number, rule.non_resource_urls)
    return rule


def _check_urls(number: int, urls: Sequence[str]) -> None:
    for place, url in enumerate(urls):
        if url != ALL and (not url.startswith("/") or ALL in url[:-1]):
            raise PolicyInvalid(
                f'rules[{number}].nonResourceURLs[{place}]: "{url}" has to begin with "/" and may end with "*"'
            )
