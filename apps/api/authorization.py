"""Who may do what: the one place that is asked. Role-based rules will be asked here as well."""

from __future__ import annotations

from typing import Any, NamedTuple

from apps.api import agents
from apps.objects.configuration import configuration
from controlplane.apimachinery.errors import Forbidden, ServiceUnavailable, qualified

READING = frozenset(("get", "list", "watch"))
ANYBODY_MAY_ASK = frozenset(("authentication.k8s.io", "authorization.k8s.io"))
# A Work carries its manifest whole, so one of a Secret holds the Secret's data.
WORKS = ("work.karmada.io", "works")
CONFIDENTIAL = frozenset((("", "secrets"), WORKS))
AGENTS_RETRY_SECONDS = 10  # until an agent asks again for Works that are not handed out
OPEN_PATHS = ("api", "apis", "openapi", "version", "livez", "readyz", "healthz")  # what every client begins with
REHEARSALS = ("failover.lifeboat.io", "placementreviews")  # they are created and write nothing


class Attempt(NamedTuple):
    """What somebody wants to do; `resource` is the plural, "" for paths that are no resource."""

    verb: str
    group: str = ""
    resource: str = ""
    subresource: str = ""
    namespace: str = ""
    name: str = ""
    path: str = ""


def allowed(user: Any, attempt: Attempt) -> bool:
    """Test whether a user may: superusers everything, agents what concerns their own cluster, others read all but
    secrets and works; everybody asks about themselves."""
    if user.is_superuser:
        return True
    if not user.is_authenticated:
        return False
    if cluster := agents.cluster_of(user):
        return _granted(cluster, attempt)
    if attempt.group in ANYBODY_MAY_ASK or (attempt.group, attempt.resource) == REHEARSALS:
        return attempt.verb == "create"
    if not attempt.resource:
        return attempt.verb == "get"
    if "*" in (attempt.group, attempt.resource):  # asked by `kubectl auth can-i`: all of them, the confidential too
        return False
    return attempt.verb in READING and (attempt.group, attempt.resource) not in CONFIDENTIAL


def rule_of(user: Any) -> str:
    """Return the sentence that says what a user may who is no administrator."""
    if cluster := agents.cluster_of(user):
        return f"the agent of {cluster} may do what concerns that cluster, and nothing else"
    return "users who are no administrators read everything but Secrets and Works, and write nothing"


def _granted(cluster: str, attempt: Attempt) -> bool:
    """Test whether an agent may. A name that is not known yet (create, before its body is read) is asked again."""
    if attempt.group in ANYBODY_MAY_ASK:
        return attempt.verb == "create"
    if not attempt.resource:
        return attempt.verb == "get" and attempt.path.strip("/").partition("/")[0] in OPEN_PATHS
    return any(
        (one.group, one.resource, one.subresource) == (attempt.group, attempt.resource, attempt.subresource)
        and attempt.verb in one.verbs
        and one.namespace == attempt.namespace
        and (one.name in ("", attempt.name) or (attempt.verb == "create" and not attempt.name))
        for one in agents.grants(cluster)
    )


def check(user: Any, attempt: Attempt) -> None:
    """Raise Forbidden, worded as kubectl's users know it, where `allowed` says no.

    Raises ServiceUnavailable for an agent that asks for its Works while members are left alone after a restore.
    """
    if allowed(user, attempt):
        _keep_waiting(user, attempt)
        return
    what = qualified(attempt.resource, attempt.group)
    if attempt.subresource:
        what = f"{qualified(f'{attempt.resource}/{attempt.subresource}', attempt.group)}"
    named = f'{what} "{attempt.name}"' if attempt.name else what
    place = f' in the namespace "{attempt.namespace}"' if attempt.namespace else " at the cluster scope"
    raise Forbidden(
        f'{named} is forbidden: User "{user.get_username()}" cannot {attempt.verb} resource "{attempt.resource}" '
        f'in API group "{attempt.group}"{place}',
        kind=attempt.resource,
        group=attempt.group,
        name=attempt.name,
    )


def _keep_waiting(user: Any, attempt: Attempt) -> None:
    if (attempt.group, attempt.resource) != WORKS or attempt.verb not in READING or not agents.cluster_of(user):
        return
    if (held := configuration().held()) is not None:
        raise ServiceUnavailable(held.message, retry_after_seconds=AGENTS_RETRY_SECONDS)


def rules(user: Any) -> dict[str, Any]:
    """Return the rules of a user for SelfSubjectRulesReview."""
    if user.is_superuser:
        resources = [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}]
        paths = [{"verbs": ["*"], "nonResourceURLs": ["*"]}]
        return {"resourceRules": resources, "nonResourceRules": paths, "incomplete": False}
    reviews = ["selfsubjectreviews", "selfsubjectaccessreviews", "selfsubjectrulesreviews"]
    asking: dict[str, Any] = {"verbs": ["create"], "apiGroups": sorted(ANYBODY_MAY_ASK), "resources": reviews}
    if cluster := agents.cluster_of(user):
        known = [f"/{path}{more}" for path in OPEN_PATHS for more in ("", "/*")]
        return {
            "resourceRules": [asking, *(_rule(one) for one in agents.grants(cluster))],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": known}],
            "incomplete": False,
        }
    return {
        "resourceRules": [
            asking,
            {"verbs": ["create"], "apiGroups": [REHEARSALS[0]], "resources": [REHEARSALS[1]]},
            {"verbs": sorted(READING), "apiGroups": ["*"], "resources": ["*"]},
        ],
        "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["*"]}],
        "incomplete": True,
        "evaluationError": "secrets and works are left out of reading; a rule cannot say so",
    }


def _rule(one: agents.Grant) -> dict[str, Any]:
    resource = f"{one.resource}/{one.subresource}" if one.subresource else one.resource
    rule: dict[str, Any] = {"verbs": sorted(one.verbs), "apiGroups": [one.group], "resources": [resource]}
    return rule | ({"resourceNames": [one.name]} if one.name else {})
