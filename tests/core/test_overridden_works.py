"""Works follow the override policies of their templates, and only those that are concerned [override-policies]."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.structs import replace

from controlplane.apimachinery.meta import Condition, Ref, condition
from controlplane.controllers.execution import Execution
from controlplane.controllers.reads import override_policies
from controlplane.controllers.works import Works
from controlplane.eviction.leftovers import LateRemoval
from controlplane.kinds.binding import OVERRIDES_APPLIED
from controlplane.kinds.override_policy import OverridePolicy
from tests.builders.objects import START, policy
from tests.builders.templates import deployment, namespace
from tests.core.propagation_story import DIVIDED_PLACEMENT, MEMBERS, Story
from tests.core.test_overrides import from_spec, label, selecting
from tests.core.test_overrides import policy as override

FAILING = {"plaintext": [{"operator": "remove", "path": "/spec/nothing"}]}
ONLY_MEMBER1 = {"clusterNames": ["member1"]}


def labels(story: Story) -> dict[str, str | None]:
    return {name: work.manifest["metadata"]["labels"].get("by") for name, work in story.works().items()}


def edit(story: Story, new: OverridePolicy) -> None:
    old = story.store.objects[new.ref]
    story.edit(replace(new, metadata=replace(old.metadata, generation=old.metadata.generation + 1)))


def placed(*more: Any) -> tuple[Story, Any]:
    web = deployment()
    story = Story(*MEMBERS, policy("all"), web, *more)
    story.place(web, member1=3, member2=3)
    return story, web


def test_a_policy_changes_works_when_it_comes_when_it_is_edited_and_when_it_goes() -> None:
    story, _ = placed()
    assert labels(story) == {"member1": None, "member2": None}

    one = selecting(label("one", "first", target=ONLY_MEMBER1), name="web")
    story.add(one)
    assert labels(story) == {"member1": "first", "member2": None}
    assert "one" in story.works()["member1"].metadata.annotations["policy.karmada.io/applied-overrides"]
    assert story.events("ApplyOverridePolicySucceed") == [
        "Apply override policy(default/one) for cluster(member1) succeed."
    ]

    edit(story, selecting(label("one", "second"), name="web"))
    assert labels(story) == {"member1": "second", "member2": "second"}

    edit(story, selecting(label("one", "second"), name="other"))
    assert labels(story) == {"member1": None, "member2": None}

    edit(story, selecting(label("one", "third"), name="web"))
    story.delete(one)
    assert labels(story) == {"member1": None, "member2": None}
    assert "policy.karmada.io/applied-overrides" not in story.works()["member1"].metadata.annotations
    assert story.again() == 0


def test_a_policy_that_fails_for_a_cluster_stops_only_that_cluster_and_is_reported() -> None:
    story, web = placed()
    story.add(override("broken", target=ONLY_MEMBER1, **FAILING))

    story.edit(story.template(web).with_meta(labels={**story.template(web).metadata.labels, "by": "template"}))

    assert labels(story) == {"member1": None, "member2": "template"}
    found = story.binding(web)
    assert found is not None
    said = condition(found.status.conditions, OVERRIDES_APPLIED)
    assert said is not None
    assert (said.status, said.reason) == ("False", "ApplyOverridePolicyFailed")
    assert "cluster member1: OverridePolicy default/broken cannot be applied" in said.message
    assert "kubectl edit overridepolicy broken -n default" in said.message
    assert len(story.events("ApplyOverridePolicyFailed")) == 2  # of the binding and of the template
    assert story.again() == 0

    story.delete(override("broken", **FAILING))

    assert labels(story) == {"member1": "template", "member2": "template"}
    found = story.binding(web)
    assert found is not None
    said = condition(found.status.conditions, OVERRIDES_APPLIED)
    assert said is not None
    assert said.status == "True"


@pytest.mark.parametrize(
    ("operation", "said"),
    [
        ({"operator": "remove", "path": "/metadata"}, "no metadata.name"),
        ({"operator": "replace", "path": "/metadata", "value": "x"}, "no metadata.name"),
        ({"operator": "remove", "path": "/metadata/name"}, "no metadata.name"),
        ({"operator": "replace", "path": "/metadata/labels", "value": ["x"]}, "metadata.labels"),
        ({"operator": "add", "path": "/metadata/annotations", "value": "x"}, "metadata.annotations"),
    ],
)
def test_a_policy_that_spoils_the_metadata_stops_only_its_cluster(operation: dict[str, Any], said: str) -> None:
    story, web = placed(override("broken", target=ONLY_MEMBER1, plaintext=[operation]))

    assert set(story.works()) == {"member2"}
    found = story.binding(web)
    assert found is not None
    reported = condition(found.status.conditions, OVERRIDES_APPLIED)
    assert reported is not None
    assert "cluster member1: OverridePolicy default/broken cannot be applied" in reported.message
    assert said in reported.message


@pytest.mark.parametrize(
    ("form", "text", "clusters"),
    [
        ("yaml", '"5²": 1\n"x": 2\n', {"member1", "member2"}),
        ("yaml", f'? "{"9" * 5000}"\n: 1\n"10": 2\n', {"member1", "member2"}),
        ("json", "[" * 900 + "]" * 900, {"member2"}),
    ],
    ids=["superscript", "long", "deep"],
)
def test_a_text_with_odd_keys_or_very_many_levels_stops_no_other_cluster(
    form: str, text: str, clusters: set[str]
) -> None:
    """An error that is none of the policy would stop all copies of the workload, and their removal."""
    operation = {"operator": "add", "subPath": "/-" if form == "json" else "/a", "value": 1}
    field = {"fieldPath": "/metadata/annotations/text", form: [operation]}
    web = deployment(annotations={"text": text})
    story = Story(*MEMBERS, policy("all"), web, override("odd", target=ONLY_MEMBER1, fieldOverrider=[field]))

    story.place(web, member1=3, member2=3)

    assert set(story.works()) == clusters
    story.place(web, member3=3)
    kept = {name for name, work in story.works().items() if work.metadata.deletion_timestamp is None}
    assert kept == {"member3"}


@pytest.mark.parametrize(
    ("path", "value"),
    [("/spec/replicas", "three"), ("/spec/replicas", ["x"]), ("/spec/template/spec/containers", ["x"]), ("/spec", 1)],
)
def test_a_policy_that_spoils_the_replicas_of_a_divided_workload_stops_only_its_cluster(path: str, value: Any) -> None:
    web, spoiling = deployment(), {"operator": "replace", "path": path, "value": value}
    story = Story(*MEMBERS, policy("all", placement=DIVIDED_PLACEMENT), web)
    story.place(web, member1=2, member2=1)

    story.add(override("broken", target=ONLY_MEMBER1, plaintext=[spoiling]))
    story.place(web, member1=1, member3=2)

    assert story.works()["member3"].manifest["spec"]["replicas"] == 2
    assert story.again() == 0
    story.delete(override("broken"))
    assert story.works()["member1"].manifest["spec"]["replicas"] == 1


def test_a_deleted_work_keeps_its_copy_until_the_policies_let_the_next_work_be_made() -> None:
    story, web = placed()
    story.add(override("broken", target=ONLY_MEMBER1, **FAILING))
    going = story.works()["member1"]
    story.delete(going)

    def treated() -> LateRemoval | None:
        (snapshot,) = Execution().load(story.store, [going.ref])
        assert snapshot is not None
        return snapshot.late and snapshot.late._replace(rests_on=None)

    assert treated() == LateRemoval(wanted=False, may_go=False)  # the copy stays, and its Work too

    story.delete(override("broken", **FAILING))
    assert treated() == LateRemoval(wanted=True, may_go=True)

    story.add(override("broken", target=ONLY_MEMBER1, **FAILING))
    story.delete(web)
    assert treated() == LateRemoval(wanted=False, may_go=True)


def test_labels_and_fields_of_a_cluster_choose_at_once() -> None:
    by_label = label("l", "gold", target={"labelSelector": {"matchLabels": {"tier": "gold"}}})
    story, _ = placed(by_label)
    assert labels(story) == {"member1": None, "member2": None}

    member = story.store.objects[MEMBERS[0].ref]
    story.edit(member.with_meta(labels={"tier": "gold"}))
    assert labels(story) == {"member1": "gold", "member2": None}

    story.edit(story.store.objects[MEMBERS[0].ref].with_meta(labels={}))
    assert labels(story) == {"member1": None, "member2": None}


def test_a_change_of_a_cluster_concerns_nothing_while_no_policy_reads_clusters() -> None:
    story, _ = placed(label("p", "x", target=ONLY_MEMBER1))

    found = override_policies.bindings_of(
        story.store, Ref(override_policies.TARGET, "", "member1"), after="", limit=100
    )

    assert found == ([], None)


def test_namespaces_get_the_labels_of_cluster_override_policies() -> None:
    story = Story(*MEMBERS, namespace("shop"))
    by = from_spec(
        {
            "resourceSelectors": [{"apiVersion": "v1", "kind": "Namespace", "name": "shop"}],
            "overrideRules": [
                {
                    "targetCluster": ONLY_MEMBER1,
                    "overriders": {"labelsOverrider": [{"operator": "add", "value": {"by": "fleet"}}]},
                }
            ],
        },
        namespace="",
    )

    story.add(by)
    assert labels(story) == {"member1": "fleet", "member2": None, "member3": None}
    story.delete(by)
    assert labels(story) == {"member1": None, "member2": None, "member3": None}


def test_a_policy_waits_for_the_override_policies_that_it_depends_on() -> None:
    web = deployment()
    waiting = policy("all", namespace="default")
    waiting = replace(waiting, spec=replace(waiting.spec, dependent_overrides=("images",)))
    story = Story(*MEMBERS, waiting, web)
    assert story.binding(web) is None
    assert "waits for policy.karmada.io/OverridePolicy:default/images" in story.events("ApplyPolicyFailed")[0]

    story.add(label("images", "x"))

    assert story.binding(web) is not None


@pytest.mark.parametrize("limit", [1, 2, 100])
@pytest.mark.parametrize(
    ("changed", "names"),
    [
        (label("p", "x"), {"a-deployment", "b-deployment"}),
        (selecting(label("p", "x")), {"a-deployment", "b-deployment"}),
        (selecting(label("p", "x"), name="a"), {"a-deployment"}),
        (selecting(label("p", "x", namespace=""), name="a"), {"a-deployment"}),
        (selecting(label("p", "x"), namespace="other"), set()),
    ],
)
def test_a_change_concerns_the_bindings_that_the_policy_selects_page_by_page(
    changed: OverridePolicy, names: set[str], limit: int
) -> None:
    web = [deployment(name) for name in ("a", "b")]
    story = Story(*MEMBERS, policy("all"), *web, deployment("a", namespace="elsewhere"))
    found: list[Ref] = []
    for origin in override_policies.policy_changed(None, changed):
        cursor: str | None = ""
        while cursor is not None:
            refs, cursor = Works().expand(story.store, origin, after=cursor, limit=limit)
            found += refs

    in_namespace = {ref.name for ref in found if ref.namespace == "default"}
    assert in_namespace == names
    assert changed.cluster_scoped or {ref.namespace for ref in found} <= {"default"}


def test_a_policy_that_only_changes_its_metadata_concerns_nothing() -> None:
    one = label("p", "x")

    assert not list(override_policies.policy_changed(one, one.with_meta(labels={"a": "b"})))


def test_a_dependency_is_overridden_where_the_clusters_label_changes() -> None:
    """A binding that others need has no placement; its Works say where it is."""
    story, web = placed(label("l", "gold", target={"labelSelector": {"matchLabels": {"tier": "gold"}}}))
    binding = story.binding(web)
    assert binding is not None

    refs: list[Ref] = []
    cursor: str | None = ""
    while cursor is not None:
        found, cursor = override_policies.bindings_of(
            story.store, Ref(override_policies.TARGET, "", "member2"), after=cursor, limit=1
        )
        refs += found

    assert refs == [binding.ref]


def test_a_condition_of_another_controller_stays() -> None:
    story, web = placed()
    binding = story.binding(web)
    assert binding is not None
    other = Condition("Scheduled", "True", "Success", last_transition_time=START)
    story.edit(binding.with_status(conditions=(other,)))

    story.add(override("broken", **FAILING))

    binding = story.binding(web)
    assert binding is not None
    assert {one.type for one in binding.status.conditions} >= {"Scheduled", OVERRIDES_APPLIED}


@pytest.mark.parametrize("form", ["json", "yaml", "plaintext"])
def test_operations_that_nest_values_in_one_another_stop_no_other_cluster(form: str) -> None:
    """Each value has few levels, and all of them together more than can be written."""
    value: dict[str, Any] = {}
    for _ in range(90):
        value = {"a": value}
    paths = ["/a" * (2 + 91 * number) for number in range(15)]
    if form == "plaintext":
        paths = ["/spec/a", *[f"/spec{path}" for path in paths]]
        changes: dict[str, Any] = {"plaintext": [{"operator": "add", "path": path, "value": value} for path in paths]}
    else:
        operations = [{"operator": "add", "subPath": path, "value": value} for path in paths]
        changes = {"fieldOverrider": [{"fieldPath": "/metadata/annotations/text", form: operations}]}
    web = deployment(annotations={"text": '{"a":{}}'})
    story = Story(*MEMBERS, policy("all"), web, override("deep", target=ONLY_MEMBER1, **changes))

    story.place(web, member1=3, member2=3)

    assert set(story.works()) == {"member2"}
    found = story.binding(web)
    assert found is not None
    said = condition(found.status.conditions, OVERRIDES_APPLIED)
    assert said is not None
    assert "nested deeper than 100 levels" in said.message
