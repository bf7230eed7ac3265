"""Which writes the rules and selectors of policies and webhooks match [admission-matching]."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.admission.matching import Subject, match_of
from controlplane.kind import KINDS

RULE = {"operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["v1"], "resources": ["deployments"]}
TEAM = {"matchLabels": {"team": "a"}}


def labelled(**labels: str) -> dict[str, Any]:
    return {"metadata": {"labels": labels}}


def subject(kind: str = "apps/Deployment", **more: Any) -> Subject:
    stated = {"operation": "CREATE", "namespace": "default", "name": "web", "new": labelled(), "old": None, **more}
    return Subject(resource=KINDS[kind].resource, **stated)


def matches(subject: Subject, match: dict[str, Any] | None = None, **rule: Any) -> bool:
    return match_of({**(match or {}), "resourceRules": [{**RULE, **rule}]}).version(subject) is not None


@pytest.mark.parametrize(
    ("rule", "taken"),
    [
        ({}, True),
        ({"operations": ["*"]}, True),
        ({"operations": ["UPDATE", "DELETE"]}, False),
        ({"operations": ["CONNECT"]}, False),
        ({"apiGroups": [""]}, False),
        ({"apiGroups": ["*"]}, True),
        ({"apiVersions": ["v1beta1"]}, False),
        ({"resources": ["*"]}, True),
        ({"resources": ["*/*"]}, True),
        ({"resources": ["deployments/*"]}, True),
        ({"resources": ["deployments/scale"]}, False),
        ({"resources": ["*/scale"]}, False),
        ({"scope": "Namespaced"}, True),
        ({"scope": "Cluster"}, False),
        ({"resourceNames": ["web"]}, True),
        ({"resourceNames": ["api"]}, False),
    ],
)
def test_a_rule_matches_operation_group_version_resource_scope_and_name(rule: dict[str, Any], taken: bool) -> None:
    assert matches(subject(), **rule) is taken


@pytest.mark.parametrize(
    ("resources", "taken"), [(["deployments"], False), (["*"], False), (["deployments/scale"], True), (["*/*"], True)]
)
def test_a_subresource_is_matched_only_where_it_is_named(resources: list[str], taken: bool) -> None:
    assert matches(subject(subresource="scale"), resources=resources) is taken


def test_an_excluded_rule_wins() -> None:
    assert not matches(subject(), {"excludeResourceRules": [RULE]})
    assert matches(subject(), {"excludeResourceRules": [{**RULE, "resourceNames": ["api"]}]})


@pytest.mark.parametrize(
    ("new", "old", "taken"),
    [
        (labelled(team="a"), None, True),
        (labelled(team="b"), None, False),
        (labelled(team="b"), labelled(team="a"), True),
        (None, labelled(team="a"), True),
        (None, labelled(), False),
    ],
)
def test_the_object_selector_takes_a_write_of_which_either_side_is_selected(new: Any, old: Any, taken: bool) -> None:
    assert matches(subject(new=new, old=old), {"objectSelector": TEAM}) is taken


def test_the_namespace_selector_reads_the_namespace_and_for_a_namespace_itself() -> None:
    assert matches(subject(namespace_labels={"team": "a"}), {"namespaceSelector": TEAM})
    assert not matches(subject(namespace_labels={"team": "b"}), {"namespaceSelector": TEAM})
    everything = {"apiGroups": ["*"], "resources": ["*"]}
    assert matches(subject("Namespace", new=labelled(team="a")), {"namespaceSelector": TEAM}, **everything)
    assert not matches(subject("Namespace", new=labelled()), {"namespaceSelector": TEAM}, **everything)
    assert matches(subject("rbac.authorization.k8s.io/ClusterRole"), {"namespaceSelector": TEAM}, **everything)


def test_another_version_of_the_resource_is_matched_unless_the_policy_is_exact() -> None:
    beta = {"apiVersions": ["v1beta1"]}
    older = subject(versions=("v1beta1",))
    assert match_of({"resourceRules": [{**RULE, **beta}]}).version(older) == "v1beta1"
    assert not matches(older, {"matchPolicy": "Exact"}, **beta)


@pytest.mark.parametrize("kind", ["ValidatingAdmissionPolicy", "MutatingWebhookConfiguration"])
def test_kinds_of_admission_are_never_matched(kind: str) -> None:
    found = subject(f"admissionregistration.k8s.io/{kind}")
    assert not matches(found, operations=["*"], apiGroups=["*"], apiVersions=["*"], resources=["*/*"])
