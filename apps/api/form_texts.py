"""The texts that forms of the browsable API begin with: a valid example of what the URL takes."""

from __future__ import annotations

from datetime import datetime
from typing import Any, Final

from apps.api.target import Target
from apps.objects.examples import example_of
from apps.objects.yaml_text import to_yaml
from controlplane.kinds import interpretation, placement_review

REASON: Final = {"reason": "agreed with the owners of the workload"}
BODIES: Final[dict[str, Any]] = {
    "fence": {"reason": "its power is off", "expiresInSeconds": 3600},
    "revert": {},
    **dict.fromkeys(("hold", "release", "skip", "expedite"), REASON),
}
"""The body of each action, by the name of its subresource."""

_DEPLOYMENT: Final = {
    "apiVersion": "apps/v1",
    "kind": "Deployment",
    "metadata": {"name": "web", "namespace": "default"},
    "spec": {
        "replicas": 2,
        "selector": {"matchLabels": {"app": "web"}},
        "template": {
            "metadata": {"labels": {"app": "web"}},
            "spec": {"containers": [{"name": "web", "image": "nginx"}]},
        },
    },
}
REVIEWS: Final[dict[str, Any]] = {
    "placementreviews": {
        "apiVersion": placement_review.RESOURCE.api_version,
        "kind": placement_review.RESOURCE.kind,
        "spec": {"manifest": _DEPLOYMENT, "placement": {"clusterAffinity": {"exclude": []}}},
    },
    "interpretations": {
        "apiVersion": interpretation.RESOURCE.api_version,
        "kind": interpretation.RESOURCE.kind,
        "spec": {"object": _DEPLOYMENT},
    },
    "selfsubjectreviews": {"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"},
    "selfsubjectaccessreviews": {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "group": "apps", "resource": "deployments"}},
    },
    "selfsubjectrulesreviews": {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectRulesReview",
        "spec": {"namespace": "default"},
    },
}
"""Documents that are answered and never stored, by the plural in their URL."""


def beginning(path: str, target: Target | None, *, now: datetime) -> str:
    """Return the text of a form for POST to a URL. "": nothing is known about its body."""
    if target is None:
        review = REVIEWS.get(path.strip("/").rpartition("/")[2])
        return "" if review is None else to_yaml(review)
    if target.subresource:
        return to_yaml(BODIES.get(target.subresource, {}))
    return example_of(target.kind, namespace=target.namespace, now=now)
