"""What-if about override policies: which copies get another content, and what changes in them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.reads.supposed_snapshot import count_concerned
from controlplane.engine.decision import Put
from controlplane.engine.memory import MemoryStore
from controlplane.insight.changes import ObjectsDeleted, PolicyEdited
from controlplane.insight.previews import questions
from controlplane.insight.supposed.override_edits import Copies, overridden
from controlplane.kinds.binding import TargetCluster
from controlplane.kinds.override_policy import OverridePolicy
from controlplane.kinds.template import Template
from controlplane.propagation import bindings
from controlplane.settings import GATES
from tests.builders.objects import START, cluster
from tests.builders.templates import deployment
from tests.core.test_overrides import from_spec, policy, selecting
from tests.core.test_what_if import asked
from tests.core.test_what_if_policies import of_web

TAG = {"imageOverrider": [{"component": "Tag", "operator": "replace", "value": "2"}]}
PRICE = {"labelsOverrider": [{"operator": "add", "value": {"price": "low"}}]}


def placed(name: str = "web", **metadata: Any) -> list[Any]:
    """Return a Deployment with an image, and its binding with copies on two clusters."""
    template = deployment(name, replicas=2, **metadata)
    pod = {"containers": [{"name": "main", "image": "nginx:1"}]}
    template = template.with_content(
        {**template.content, "spec": {**template.content["spec"], "template": {"spec": pod}}}
    )
    made = bindings.create(template, of_web("web", "member1"), gates=dict(GATES), now=START)
    return [template, made.with_spec(clusters=(TargetCluster("member1", 2), TargetCluster("member2", 2)))]


def edited(made: OverridePolicy) -> PolicyEdited:
    document = msgspec.to_builtins(made)
    names = {key: getattr(made.metadata, key) for key in ("name", "namespace") if getattr(made.metadata, key)}
    return PolicyEdited({**document, "metadata": names})


def lines(found: Any) -> list[tuple[str, str]]:
    return [(one.workload, one.message) for one in found.overridden]


def test_a_new_policy_names_each_copy_that_changes_and_the_field() -> None:
    made = policy(target={"clusterNames": ["member2"]}, **TAG)

    found = asked(*placed(), change=edited(made))

    assert found.refused == ()
    assert found.sentence == "changes 1 copy"
    (one,) = found.overridden
    assert (one.workload, one.to, one.reason) == ("Deployment default/web", {"member2": 2}, "CopyChanged")
    assert one.message == "member2: spec.template.spec.containers[main].image is nginx:2 instead of nginx:1"


def test_an_edit_is_compared_with_the_stored_policy_and_a_deletion_takes_its_changes_back() -> None:
    stored = policy(**TAG)
    image = "spec.template.spec.containers[main].image"

    other = asked(*placed(), stored, change=edited(policy(imageOverrider=[{**TAG["imageOverrider"][0], "value": "3"}])))
    same = asked(*placed(), stored, change=edited(stored))
    deleted = asked(*placed(), stored, change=ObjectsDeleted((str(stored.ref),)))

    assert [text for _, text in lines(other)] == [f"member{n}: {image} is nginx:3 instead of nginx:2" for n in (1, 2)]
    assert (lines(same), same.sentence) == ([], "moves nothing")
    assert [text for _, text in lines(deleted)] == [f"member{n}: {image} is nginx:1 instead of nginx:2" for n in (1, 2)]


@pytest.mark.parametrize(
    ("before", "after", "shown"), [(1, True, "true instead of 1"), (0, False, "false instead of 0")]
)
def test_a_value_that_gets_another_type_is_a_change(before: Any, after: Any, shown: str) -> None:
    """For Python true equals 1."""
    old, new = (
        policy(plaintext=[{"operator": "add", "path": "/spec/paused", "value": value}]) for value in (before, after)
    )

    (asks,) = questions([Put(new, old)])
    found = asked(*placed(), old, change=asks)
    template, bound = placed()
    clusters = {name: cluster(name) for name in ("member1", "member2")}
    written = overridden([Copies(bound, template, (old,))], {new.ref: new}, frozenset(), clusters, now=START)

    assert isinstance(asks, PolicyEdited)
    assert [text for _, text in lines(found)] == [f"member{n}: spec.paused is {shown}" for n in (1, 2)]
    assert written == found.overridden


def test_a_policy_that_selects_something_else_now_gives_back_what_it_selected_before() -> None:
    stored = selecting(policy(**PRICE), name="web")

    found = asked(*placed(), *placed("api"), stored, change=edited(selecting(policy(**PRICE), name="api")))

    assert lines(found) == [
        ("Deployment default/api", "member1: metadata.labels.price is added"),
        ("Deployment default/api", "member2: metadata.labels.price is added"),
        ("Deployment default/web", "member1: metadata.labels.price was removed"),
        ("Deployment default/web", "member2: metadata.labels.price was removed"),
    ]


def test_a_policy_that_cannot_be_applied_leaves_the_copy_as_it_is_and_says_why() -> None:
    wrong = policy(plaintext=[{"path": "/spec/none/field", "operator": "replace", "value": "x"}])

    breaks = asked(*placed(), change=edited(wrong))
    mends = asked(*placed(), wrong, change=ObjectsDeleted((str(wrong.ref),)))

    assert {one.reason for one in breaks.overridden} == {"ApplyOverridePolicyFailed"}
    assert breaks.overridden[0].message.startswith(
        "member1: the copy stays as it is, because of OverridePolicy default/p"
    )
    assert [text for _, text in lines(mends)] == [
        f"member{n}: the override policies can be applied again" for n in (1, 2)
    ]


def test_values_of_a_secret_are_never_shown() -> None:
    secret = Template("v1", "Secret", ObjectMeta(name="s", namespace="default", uid="u"), {"data": {"key": "b2xk"}})
    bound = bindings.create(secret, of_web("web", "member1"), gates=dict(GATES), now=START)
    made = from_spec(
        {
            "overrideRules": [
                {"overriders": {"plaintext": [{"path": "/data/key", "operator": "replace", "value": "bmV3"}]}}
            ]
        }
    )

    found = asked(secret, bound.with_spec(clusters=(TargetCluster("member1"),)), change=edited(made))

    assert lines(found) == [("Secret default/s", "member1: data.key was changed")]


def test_a_cluster_override_policy_that_selects_namespaces_says_that_they_are_not_listed() -> None:
    made = from_spec({"overrideRules": [{"overriders": PRICE}]}, namespace="")

    found = asked(*placed(), change=edited(made))

    assert len(found.overridden) == 2
    assert found.remarks == ("p may also change labels and annotations of Namespaces, which are not listed here",)


@pytest.mark.parametrize(("limit", "least"), [(1, 1), (100, 3)])
def test_a_question_counts_the_bindings_that_an_override_policy_selects(limit: int, least: int) -> None:
    store = MemoryStore()
    store.create(*(one for name in ("a", "b", "c") for one in placed(name)))

    count = count_concerned(store, [edited(selecting(policy(**TAG)))], limit=limit)

    assert least <= count <= 3
