"""Rules of users may name objects of any kind, by name or by label: these follow their workloads like any others
[dependency-propagation]."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from controlplane import kinds
from controlplane.eviction import leftovers
from controlplane.interpret import INTERPRETERS, Dependency
from controlplane.kinds.binding import AggregatedStatusItem, GracefulEvictionTask, ReplicaRequirements
from controlplane.kinds.interpreter_customization import (
    CustomizationRules,
    CustomizationSpec,
    CustomizationTarget,
    InterpreterCustomization,
    LuaRule,
)
from controlplane.kinds.policy import ResourceSelector
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import attached_bindings
from tests.builders.bare import meta
from tests.builders.objects import policy
from tests.builders.templates import config_map, deployment, template
from tests.core.propagation_story import MEMBERS, Story
from tests.core.test_customized import webhook
from tests.core.test_dependencies import placed, story_of

BY_NAME = Dependency("networking.k8s.io/v1", "NetworkPolicy", "default", "closed")
BY_LABEL = Dependency("v1", "ConfigMap", "default", "", {"matchLabels": {"for": "web"}})
DATABASE = deployment("db", replicas=3)
OF_WEB = Dependency("apps/v1", "Deployment", "default", "web")
OF_DATABASE = Dependency("apps/v1", "Deployment", "default", "db")
OF_CACHE = Dependency("apps/v1", "Deployment", "default", "cache")
NETWORK_POLICY = template("NetworkPolicy", "closed", version="networking.k8s.io/v1", spec={"podSelector": {}})
ANNOTATION = "example.io/needs"
FOLLOWS = {"web-deployment": {"member1"}}


def _needed(workload: Template) -> list[Dependency]:
    """Answer as a rule that reads which objects a Deployment needs from an annotation of it."""
    found = {"name": BY_NAME, "label": BY_LABEL, "database": OF_DATABASE, "cache": OF_CACHE, "web": OF_WEB}
    return [found[each] for each in workload.metadata.annotations.get(ANNOTATION, "").split(",") if each]


@pytest.fixture(autouse=True)
def _rule_of_a_user(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    rules = CustomizationRules(dependency_interpretation=LuaRule("…"))
    spec = CustomizationSpec(CustomizationTarget("apps/v1", "Deployment"), rules)
    api_version = "config.karmada.io/v1alpha1"
    INTERPRETERS.set_rules(
        [InterpreterCustomization(api_version, "ResourceInterpreterCustomization", metadata=meta("c"), spec=spec)]
    )
    monkeypatch.setattr(attached_bindings, "needed", _needed)
    yield
    INTERPRETERS.set_rules([])


@pytest.mark.parametrize(
    ("need", "made"), [("name", NETWORK_POLICY), ("label", config_map(labels={"for": "web"}))], ids=("name", "label")
)
def test_an_object_of_any_kind_that_is_made_later_follows_its_workload(need: str, made: Template) -> None:
    web = deployment(annotations={ANNOTATION: need})
    story = story_of(web)
    story.place(web, member1=3)

    story.add(made)

    assert placed(story, made) == FOLLOWS
    assert story.again() == 0


def test_an_object_follows_while_it_has_the_labels_that_are_selected() -> None:
    web, settings = deployment(annotations={ANNOTATION: "label"}), config_map()
    story = story_of(web, settings)
    story.place(web, member1=3)
    assert placed(story, settings) == {}

    story.edit(story.template(settings).with_meta(labels={"for": "web"}))
    assert placed(story, settings) == FOLLOWS

    story.edit(story.template(settings).with_meta(labels={}))
    attached = story.binding(settings)
    assert attached is not None
    assert attached.metadata.deletion_timestamp is not None
    assert story.again() == 0


def test_a_rule_is_asked_again_when_an_annotation_of_the_workload_changes() -> None:
    web = deployment()
    story = story_of(web, NETWORK_POLICY)
    story.place(web, member1=3)

    stored = story.template(web)
    story.edit(stored.with_meta(annotations={**stored.metadata.annotations, ANNOTATION: "name"}))

    assert placed(story, NETWORK_POLICY) == FOLLOWS


@pytest.mark.parametrize(("operation", "any_of_them"), [("*", True), ("InterpretDependency", True), ("Retain", False)])
def test_a_webhook_may_name_objects_as_well(operation: str, any_of_them: bool) -> None:
    INTERPRETERS.set_rules([], [("hooks", webhook(operation))])

    assert INTERPRETERS.any_for_dependencies is any_of_them


def _copies(story: Story, name: str) -> dict[str, Work]:
    """Return the Works of a Deployment, by cluster."""
    found = [work for work in story.store.list(kinds.WORK) if work.manifest["metadata"]["name"] == name]
    return {work.cluster: work for work in found}


def _database_story(web: Template) -> Story:
    only_web = policy("web", ResourceSelector("apps/v1", "Deployment", name="web"), propagate_deps=True)
    return Story(*MEMBERS, only_web, web, DATABASE)


@pytest.mark.parametrize("replicas", [0, 1, 5])
def test_a_workload_that_another_one_needs_has_its_own_replicas_on_each_cluster(replicas: int) -> None:
    """The replicas on a cluster are those of the workload that needs it, which may even have none."""
    web = deployment(annotations={ANNOTATION: "database"})
    story = _database_story(web)
    story.place(web, member1=replicas, member2=2)

    copies = _copies(story, "db")
    assert {name: work.manifest["spec"]["replicas"] for name, work in copies.items()} == {"member1": 3, "member2": 3}

    stored = story.template(DATABASE)
    story.edit(stored.with_content({**stored.content, "spec": {**stored.spec, "replicas": 4}}))
    assert {work.manifest["spec"]["replicas"] for work in _copies(story, "db").values()} == {4}


def test_a_binding_of_an_earlier_version_with_replicas_of_its_own_gives_them_up() -> None:
    web = deployment(annotations={ANNOTATION: "database"})
    story = _database_story(web)
    story.place(web, member1=1)
    attached = story.binding(DATABASE)
    assert attached is not None

    story.edit(attached.with_spec(replicas=3, replica_requirements=ReplicaRequirements()))
    story.place(web, member1=1, member2=1)

    attached = story.binding(DATABASE)
    assert attached is not None
    assert not attached.workload
    assert {work.manifest["spec"]["replicas"] for work in _copies(story, "db").values()} == {3}


def test_the_copy_of_a_needed_workload_goes_although_fewer_replicas_are_ready_than_its_user_has() -> None:
    """The copy on a cluster that is back may be removed once the other copies are healthy."""
    web = deployment(annotations={ANNOTATION: "database"})
    story = _database_story(web)
    story.place(web, member1=5)
    attached = story.binding(DATABASE)
    assert attached is not None
    item = AggregatedStatusItem("member1", {"readyReplicas": 3}, applied=True, health="Healthy")
    reported = attached.with_status(aggregated_status=(item,))

    clusters = {member.metadata.name: member for member in MEMBERS}
    assert leftovers.may_be_removed(reported, "member2", clusters)


@pytest.mark.parametrize(("of_web", "of_database"), [(0, 3), (2, 2)])
def test_a_needed_workload_with_its_own_policy_has_its_own_replicas_where_what_needs_it_has_none(
    of_web: int, of_database: int
) -> None:
    """Otherwise it has those of the workload that needs it there, as in Karmada."""
    web = deployment(annotations={ANNOTATION: "database"})
    story = _database_story(web)
    story.add(policy("db", ResourceSelector("apps/v1", "Deployment", name="db")))
    story.place(DATABASE, member2=3)
    story.place(web, member1=of_web)

    copies = _copies(story, "db")

    assert {name: work.manifest["spec"]["replicas"] for name, work in copies.items()} == {
        "member1": of_database,
        "member2": 3,
    }


@pytest.mark.parametrize(
    ("of_web", "of_database"), [("web", ""), ("database", "web"), ("database,web", "database,web")]
)
def test_workloads_that_need_each_other_or_themselves_leave_a_cluster_together(of_web: str, of_database: str) -> None:
    """A script often names all objects with the label of an application. None of them waits for the others for ever."""
    web, database = (
        deployment(name, annotations={ANNOTATION: needs}) for name, needs in (("web", of_web), ("db", of_database))
    )
    story = Story(*MEMBERS, policy("all", propagate_deps=True), web, database)
    for one in (web, database):
        story.place(one, member1=3)

    leaving = (GracefulEvictionTask(from_cluster="member1", purge_mode="Graciously", replicas=3),)
    story.place(web, leaving, member2=3)
    assert _staying(story, "web") == {"member1", "member2"}
    story.place(web, member2=3)
    story.place(database, member2=3)
    story.later(seconds=31)

    assert _staying(story, "web") == {"member2"}
    assert _staying(story, "db") == {"member2"}


def test_workloads_that_need_each_other_in_a_ring_leave_a_cluster_together() -> None:
    needs = {"web": "database", "db": "cache", "cache": "web"}
    ring = [deployment(name, annotations={ANNOTATION: need}) for name, need in needs.items()]
    story = Story(*MEMBERS, policy("all", propagate_deps=True), *ring)
    for clusters in ({"member1": 3}, {"member2": 3}):
        for one in ring:
            story.place(one, **clusters)
    story.later(seconds=31)

    assert {name: _staying(story, name) for name in needs} == {name: {"member2"} for name in needs}


def _staying(story: Story, name: str) -> set[str]:
    copies = _copies(story, name)
    return {cluster for cluster, work in copies.items() if work.metadata.deletion_timestamp is None}
