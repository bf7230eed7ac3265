"""Authorisation: decides what a caller may do. Every request, stream and access review is decided by `authorize`."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from apps.api import agents
from apps.objects import access
from apps.objects.configuration import configuration
from controlplane.apimachinery.errors import Forbidden, ServiceUnavailable, qualified
from controlplane.authorization.attributes import Request as AccessRequest

READING = frozenset(("get", "list", "watch"))
REVIEW_GROUPS = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
SELF_REVIEWS = frozenset(("selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"))
WORKS = ("work.karmada.io", "works")
AGENTS_RETRY_SECONDS = 10  # Retry-After for an agent while Works are withheld after a restore
PROBE_PATHS = frozenset(("/livez", "/healthz", "/readyz"))  # served without a login
# First parts of the paths that every Kubernetes client reads before its first request. "" is the root path.
DISCOVERY_PATHS = ("", "api", "apis", "openapi", "version", "livez", "readyz", "healthz")


class Attributes(NamedTuple):
    """What a request attempts: the fields that Kubernetes' authorizers decide by.

    `resource` is the plural name. It is "" for a non-resource request, which is decided by `verb` and `path` instead.
    """

    user: Any
    verb: str
    api_group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""

    @property
    def request(self) -> AccessRequest:
        """Return what is attempted, without the user who attempts it."""
        return AccessRequest(
            self.verb, self.api_group, self.resource, self.subresource, self.namespace, self.name, self.path
        )


class Decision(NamedTuple):
    """Whether a request is allowed. `reason` is the rule that decided, as a sentence for the user."""

    allowed: bool
    reason: str


def authorize(attributes: Attributes) -> Decision:
    """Return whether the user may do what the attributes describe. What no rule allows is refused.

    An agent may do what concerns its own cluster, and nothing else, whatever roles say. All others are decided by roles
    and bindings (`controlplane/authorization`); superusers are members of system:masters, who may do everything.
    """
    user = attributes.user
    if not attributes.resource and attributes.verb == "get" and attributes.path.rstrip("/") in PROBE_PATHS:
        return Decision(True, "health checks need no login")
    if not user.is_authenticated:
        return Decision(False, "callers without a login may read nothing but the health checks")
    if cluster := agents.cluster_of(user):
        reason = f"the agent of {cluster} may do what concerns that cluster, and nothing else"
        return Decision(_agent_may(cluster, attributes), reason)
    return Decision(*access.authorize(user, attributes.request))


def check(attributes: Attributes, decision: Decision | None = None) -> None:
    """Raise Forbidden, with the message kubectl shows for any API server, unless the user is allowed.

    `decision`: the answer of `authorize`, if it is known. Raises ServiceUnavailable when an agent reads its Works while
    Works are withheld after a restore.
    """
    if not (decision or authorize(attributes)).allowed:
        raise _forbidden(attributes)
    _check_works_served(attributes)


def _agent_may(cluster: str, attributes: Attributes) -> bool:
    """Test whether the agent of a cluster may do this.

    The name in a create is known only after the body is read. A create without a name is therefore allowed here, and
    the view asks again with the name.
    """
    if attributes.api_group in REVIEW_GROUPS:
        return attributes.verb == "create" and attributes.resource in SELF_REVIEWS
    if not attributes.resource:
        return attributes.verb == "get" and attributes.path.strip("/").partition("/")[0] in DISCOVERY_PATHS
    kind = (attributes.api_group, attributes.resource, attributes.subresource)
    return any(
        (grant.group, grant.resource, grant.subresource) == kind
        and attributes.verb in grant.verbs
        and grant.namespace == attributes.namespace
        and (grant.name in ("", attributes.name) or (attributes.verb == "create" and not attributes.name))
        for grant in agents.grants(cluster)
    )


def _forbidden(attributes: Attributes) -> Forbidden:
    username, verb, group = attributes.user.get_username(), attributes.verb, attributes.api_group
    if not attributes.resource:
        return Forbidden(f'forbidden: User "{username}" cannot {verb} path "{attributes.path}"')
    resource = "/".join(filter(None, (attributes.resource, attributes.subresource)))
    subject = qualified(attributes.resource, group)  # without the subresource, as a kube-apiserver words it
    if attributes.name:
        subject = f'{subject} "{attributes.name}"'
    scope = f'in the namespace "{attributes.namespace}"' if attributes.namespace else "at the cluster scope"
    return Forbidden(
        f'{subject} is forbidden: User "{username}" cannot {verb} resource "{resource}" in API group "{group}" {scope}',
        kind=attributes.resource,
        group=group,
        name=attributes.name,
    )


def _check_works_served(attributes: Attributes) -> None:
    """Raise ServiceUnavailable when an agent reads its Works while a restored database awaits confirmation."""
    reads_works = (attributes.api_group, attributes.resource) == WORKS and attributes.verb in READING
    if not reads_works or not agents.cluster_of(attributes.user):
        return
    if (held := configuration().held()) is not None:
        raise ServiceUnavailable(held.message, retry_after_seconds=AGENTS_RETRY_SECONDS)


def rules(user: Any, namespace: str) -> dict[str, Any]:
    """Return the status of a SelfSubjectRulesReview: what `authorize` allows the user in a namespace, as rules."""
    if cluster := agents.cluster_of(user):
        reviews = {"verbs": ["create"], "apiGroups": sorted(REVIEW_GROUPS), "resources": sorted(SELF_REVIEWS)}
        patterns = (pattern for part in DISCOVERY_PATHS for pattern in ((f"/{part}", f"/{part}/*") if part else ("/",)))
        return {
            "resourceRules": [reviews, *(_rule(grant) for grant in agents.grants(cluster))],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": list(patterns)}],
            "incomplete": False,
        }
    resources: list[Any] = []
    paths: list[Any] = []
    for rule in access.access().policy().rules_of(access.caller_of(user), namespace):
        content = {field: value for field, value in msgspec.to_builtins(rule).items() if value}
        (paths if rule.non_resource_urls else resources).append(content)
    return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}


def _rule(grant: agents.Grant) -> dict[str, Any]:
    """Return an agent's grant as a rule of a SelfSubjectRulesReview."""
    resource = f"{grant.resource}/{grant.subresource}" if grant.subresource else grant.resource
    rule: dict[str, Any] = {"verbs": sorted(grant.verbs), "apiGroups": [grant.group], "resources": [resource]}
    return rule | ({"resourceNames": [grant.name]} if grant.name else {})
