"""Access reviews are refused where a kube-apiserver refuses them, with the same fields and words."""

from __future__ import annotations

from typing import Any

import pytest

from controlplane.apimachinery.errors import BadRequest
from controlplane.authorization.review_rules import causes_of_review, check_place

PODS = {"verb": "get", "resource": "pods", "namespace": "shop"}
PATH = {"verb": "get", "path": "/x"}
RESOURCE = "spec.resourceAttributes"
ONE = "exactly one of nonResourceAttributes or resourceAttributes must be specified"
VALUES = "must be specified when `operator` is 'In' or 'NotIn'"
NO_VALUES = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"


def wrong(spec: dict[str, Any], *, kind: str = "SubjectAccessReview", within: str = "", **more: Any) -> list[str]:
    review = {"kind": kind, "spec": spec, **more}
    return [f"{cause.field}: {cause.message.partition(': ')[2]}" for cause in causes_of_review(review, within)]


def selecting(field: str, **selector: Any) -> dict[str, Any]:
    return {"user": "eva", "resourceAttributes": {**PODS, field: selector}}


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ({"user": "eva", "resourceAttributes": PODS}, []),
        ({"groups": ["a"], "nonResourceAttributes": PATH}, []),
        ({"user": "eva", "resourceAttributes": {}}, []),
        ({"user": "eva"}, [f"{RESOURCE}: null: {ONE}"]),
        ({"resourceAttributes": PODS}, ['spec.user: "": at least one of user or group must be specified']),
        (
            {"user": "eva", "resourceAttributes": PODS, "nonResourceAttributes": PATH},
            [
                'spec.nonResourceAttributes: {"verb":"get","path":"/x"}: cannot be specified in combination with '
                "resourceAttributes"
            ],
        ),
    ],
)
def test_a_review_names_a_user_and_either_a_resource_or_a_path(spec: dict[str, Any], said: list[str]) -> None:
    assert wrong(spec) == said


@pytest.mark.parametrize("field", ["fieldSelector", "labelSelector"])
@pytest.mark.parametrize(
    ("selector", "said"),
    [
        ({"rawSelector": "a=b"}, ""),
        ({"requirements": [{"key": "a", "operator": "In", "values": ["b"]}]}, ""),
        ({"requirements": [{"key": "a", "operator": "Is"}]}, ""),
        ({"requirements": []}, "requirements: when {at} is specified, requirements or rawSelector is required"),
        ({"requirements": [{"key": "a", "operator": "NotIn"}]}, f"requirements[0].values: {VALUES}"),
        (
            {"requirements": [{"key": "a", "operator": "Exists", "values": ["b"]}]},
            f"requirements[0].values: {NO_VALUES}",
        ),
        (
            {"rawSelector": "a=b", "requirements": [{"key": "a", "operator": "Exists"}]},
            'rawSelector: "a=b": may not specified at the same time as requirements',
        ),
    ],
)
def test_a_selector_is_raw_or_has_valid_requirements(field: str, selector: dict[str, Any], said: str) -> None:
    at = f"{RESOURCE}.{field}"

    assert wrong(selecting(field, **selector)) == ([f"{at}.{said.format(at=at)}"] if said else [])


def test_only_labels_have_the_syntax_of_labels() -> None:
    requirements = [{"key": "a b", "operator": "In", "values": ["c d"]}]

    assert wrong(selecting("fieldSelector", requirements=requirements)) == []
    key, value = wrong(selecting("labelSelector", requirements=requirements))
    assert key.startswith(f'{RESOURCE}.labelSelector.requirements[0].key: "a b": name part must consist of')
    assert value.startswith(f'{RESOURCE}.labelSelector.requirements[0].values[0]: "c d": a valid label must be')
    assert wrong(selecting("fieldSelector", requirements=[{"key": "", "operator": "Exists"}])) == [
        f"{RESOURCE}.fieldSelector.requirements[0].key: must be specified"
    ]


def test_a_review_in_a_namespace_is_about_resources_of_this_namespace() -> None:
    local = {"kind": "LocalSubjectAccessReview", "within": "shop"}

    assert wrong({"user": "eva", "resourceAttributes": PODS}, **local) == []
    assert wrong({"user": "eva", "resourceAttributes": {**PODS, "namespace": "o"}}, **local) == [
        f'{RESOURCE}.namespace: "o": must match metadata.namespace'
    ]
    assert wrong({"user": "eva", "nonResourceAttributes": PATH}, **local) == [
        'spec.nonResourceAttributes: {"verb":"get","path":"/x"}: disallowed on this kind of request'
    ]


def test_metadata_is_empty_and_reviews_of_oneself_name_no_user() -> None:
    assert wrong({"user": "eva", "resourceAttributes": PODS}, metadata={"name": "x", "managedFields": [{}]}) == [
        'metadata: {"name":"x"}: must be empty'
    ]
    assert wrong({"resourceAttributes": PODS}, kind="SelfSubjectAccessReview") == []
    assert wrong({}, kind="SelfSubjectAccessReview") == [f"{RESOURCE}: null: {ONE}"]
    assert wrong({"namespace": "shop"}, kind="SelfSubjectRulesReview") == []


@pytest.mark.parametrize("document", [{"kind": "Pod", "apiVersion": "v1"}, {"metadata": {"namespace": "other"}}])
def test_a_body_for_another_kind_or_namespace_is_refused(document: dict[str, Any]) -> None:
    check_place({"kind": "TokenRequest", "metadata": {"namespace": "shop"}}, "TokenRequest", "shop")

    with pytest.raises(BadRequest):
        check_place(document, "TokenRequest", "shop")
