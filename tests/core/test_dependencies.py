"""What a workload needs beside it goes where it goes, and stays on the old cluster as long as it does."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from controlplane import kinds
from controlplane.apimachinery.meta import ObjectMeta
from controlplane.controllers.dependencies import Dependencies
from controlplane.controllers.works import Works
from controlplane.engine.routing import Router
from controlplane.engine.state import Actor
from controlplane.kind import KINDS
from controlplane.kinds.binding import Binding, GracefulEvictionTask, TargetCluster
from controlplane.kinds.event import Event
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, Policy, ResourceSelector
from controlplane.kinds.template import Template
from controlplane.kinds.work import Work
from controlplane.propagation import bindings
from controlplane.propagation.definitions import kinds_of
from controlplane.settings import GATES, Settings
from tests.builders.objects import START, cluster, policy
from tests.builders.templates import config_map, deployment, with_environment_from
from tests.core.propagation_story import Story

MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))


def needing(name: str = "web", *, needs: str = "settings") -> Template:
    """A Deployment whose environment comes from a ConfigMap."""
    return with_environment_from(deployment(name), needs)


def placed(story: Story, one: Template) -> dict[str, set[str]]:
    """Which workloads want the object where."""
    found = story.store.objects.get(bindings.binding_ref(one.ref))
    if not isinstance(found, Binding):
        return {}
    return {by.name: {target.name for target in by.clusters} for by in found.spec.required_by}


def of_binding(story: Story, one: Template) -> Binding:
    found = story.binding(one)
    assert found is not None
    return found


def copy_of(story: Story, one: Template) -> Work:
    """Return the only Work of an object."""
    (found,) = (work for work in story.store.list(kinds.WORK) if work.manifest["kind"] == one.kind)
    return found


def story_of(*objects: Any, settings: Settings | None = None) -> Story:
    return Story(*MEMBERS, policy("all", propagate_deps=True), *objects, settings=settings)


def test_it_follows_its_workload_without_a_policy_of_its_own() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings)

    story.place(web, member1=3)

    assert placed(story, settings) == {"web-deployment": {"member1"}}


def test_it_stays_on_the_old_cluster_as_long_as_its_workload_does() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings)
    story.place(web, member1=3)

    story.place(web, (GracefulEvictionTask("member1", GRACEFULLY, creation_timestamp=START),), member2=3)
    assert placed(story, settings) == {"web-deployment": {"member1", "member2"}}
    story.place(web, member2=3)

    assert placed(story, settings) == {"web-deployment": {"member2"}}


def test_a_direct_eviction_takes_it_along_at_once() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings)

    story.place(web, (GracefulEvictionTask("member1", DIRECTLY, creation_timestamp=START),), member2=3)

    assert placed(story, settings) == {"web-deployment": {"member2"}}


def test_two_workloads_share_it_and_the_last_one_takes_it_away() -> None:
    web, db, settings = needing("web"), needing("db"), config_map()
    story = story_of(web, db, settings)
    story.place(web, member1=3)
    story.place(db, member2=3)
    assert placed(story, settings) == {"web-deployment": {"member1"}, "db-deployment": {"member2"}}

    story.delete(web)
    assert placed(story, settings) == {"db-deployment": {"member2"}}


def test_an_object_made_later_is_found_by_those_that_wait_for_it() -> None:
    web, settings = needing(), config_map()
    story = story_of(web)
    story.place(web, member1=3)

    story.add(settings)

    assert placed(story, settings) == {"web-deployment": {"member1"}}


def test_a_workload_that_needs_an_object_whose_binding_is_being_deleted_gets_it_with_the_next_binding() -> None:
    settings = config_map()
    of_settings = policy("own", ResourceSelector("v1", "ConfigMap"))
    story = story_of(of_settings, settings)
    story.place(settings, member1=0)
    story.delete(of_binding(story, settings))

    web = needing()
    story.add(web)
    story.edit(of_binding(story, web).with_spec(clusters=(TargetCluster("member2", 3),)))
    story.edit(copy_of(story, settings).with_meta(finalizers=()))

    assert of_binding(story, settings).metadata.deletion_timestamp is None
    assert placed(story, settings) == {"web-deployment": {"member2"}}
    assert story.again() == 0


def test_an_object_that_is_replaced_at_once_reaches_the_members_as_it_is_now() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings)
    story.place(web, member1=3)
    fresh = config_map(uid="uid-fresh").with_content({"data": {"a": "new"}})

    story.replace(settings, fresh)

    attached = story.binding(settings)
    assert attached is not None
    assert attached.spec.resource.uid == "uid-fresh"
    sent = [work.manifest for work in story.store.list(kinds.WORK) if work.manifest["kind"] == "ConfigMap"]
    assert [manifest["data"] for manifest in sent] == [{"a": "new"}]
    assert story.again() == 0


def test_with_the_gate_off_nothing_follows() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings, settings=Settings(feature_gates={**GATES, "PropagateDeps": False}))

    story.place(web, member1=3)

    assert placed(story, settings) == {}


def test_when_the_gate_is_switched_off_running_workloads_keep_what_they_have() -> None:
    web, db, settings = needing("web"), needing("db"), config_map()
    story = story_of(web, db, settings)
    story.place(web, member1=3)
    story.place(db, member2=3)

    story.settings = Settings(feature_gates={**GATES, "PropagateDeps": False})
    story.place(web, member1=4)
    assert placed(story, settings) == {"web-deployment": {"member1"}, "db-deployment": {"member2"}}

    story.delete(web)
    assert placed(story, settings) == {"db-deployment": {"member2"}}, "nothing needs it on member1 any more"


def test_running_again_changes_nothing() -> None:
    web = needing()
    story = story_of(web, config_map())
    story.place(web, member1=3)

    assert story.again() == 0
    assert any(isinstance(one, Dependencies) for one in story.controllers)


def test_what_a_workload_needs_is_listed_on_its_binding_in_the_original_s_words() -> None:
    web = needing()
    story = story_of(web, config_map())
    story.place(web, member1=3)

    binding = story.binding(web)
    assert binding is not None
    listed = json.loads(binding.metadata.annotations["resourcebinding.karmada.io/dependencies"])
    assert listed == [{"apiVersion": "v1", "kind": "ConfigMap", "namespace": "default", "name": "settings"}]


@pytest.fixture
def imports() -> Iterator[None]:
    """The kind ServiceImport, brought by its definition."""
    names = {"kind": "ServiceImport", "plural": "serviceimports"}
    versions = [{"name": "v1alpha1", "served": True, "storage": True}]
    spec = {"group": "multicluster.x-k8s.io", "scope": "Namespaced", "names": names, "versions": versions}
    metadata = ObjectMeta(name="serviceimports.multicluster.x-k8s.io", uid="uid-serviceimports")
    KINDS.set_custom(
        kinds_of([Template("apiextensions.k8s.io/v1", "CustomResourceDefinition", metadata, {"spec": spec})])
    )
    yield
    KINDS.set_custom(())


def imported(name: str = "shop") -> Template:
    """A ServiceImport, which needs the derived Service and whatever slices carry its label."""
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return Template.fold(
        {"apiVersion": "multicluster.x-k8s.io/v1alpha1", "kind": "ServiceImport", "metadata": metadata, "spec": {}}
    )


def endpoints(name: str, service: str = "derived-shop", *, namespace: str = "default") -> Template:
    labels = {"kubernetes.io/service-name": service}
    metadata = {"name": name, "namespace": namespace, "uid": f"uid-{namespace}-{name}", "labels": labels}
    return Template.fold({"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice", "metadata": metadata})


def service(name: str = "derived-shop") -> Template:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}"}
    return Template.fold({"apiVersion": "v1", "kind": "Service", "metadata": metadata, "spec": {}})


def importing(*objects: Template) -> tuple[Story, Template]:
    shop = imported()
    story = Story(
        *MEMBERS,
        policy("all", ResourceSelector("multicluster.x-k8s.io/v1alpha1", "ServiceImport"), propagate_deps=True),
        shop,
        *objects,
    )
    story.place(shop, member1=0)
    return story, shop


def leaves(story: Story, one: Template) -> bool:
    """Whether no binding needs the object any more; its binding stays until its copies have gone."""
    found = story.binding(one)
    return found is None or found.metadata.deletion_timestamp is not None


def test_what_is_chosen_by_label_follows_as_what_is_named(imports: None) -> None:
    mine, other, elsewhere = endpoints("a"), endpoints("b", "another"), endpoints("c", namespace="team")

    story, _ = importing(service(), mine, other, elsewhere)

    assert placed(story, service()) == {"shop-serviceimport": {"member1"}}
    assert placed(story, mine) == {"shop-serviceimport": {"member1"}}
    assert placed(story, other) == {}
    assert placed(story, elsewhere) == {}


def test_what_begins_or_ceases_to_be_chosen_is_noticed(imports: None) -> None:
    story, shop = importing(endpoints("other", "another"))
    late = endpoints("late")

    story.add(late)
    assert placed(story, late) == {"shop-serviceimport": {"member1"}}
    story.edit(story.template(late).with_meta(labels={"kubernetes.io/service-name": "another"}))
    assert leaves(story, late)
    story.edit(story.template(endpoints("other")).with_meta(labels={"kubernetes.io/service-name": "derived-shop"}))
    assert placed(story, endpoints("other")) == {"shop-serviceimport": {"member1"}}

    story.delete(shop)
    assert leaves(story, endpoints("other"))


def test_what_is_needed_again_before_it_has_gone_comes_back(imports: None) -> None:
    story, _ = importing()
    late = endpoints("late")
    story.add(late)
    story.edit(story.template(late).with_meta(labels={}))
    story.edit(story.template(late).with_meta(labels=late.metadata.labels))
    assert leaves(story, late)

    for work in story.works().values():  # the member has taken its copy away
        if work.metadata.deletion_timestamp is not None:
            story.edit(work.with_meta(finalizers=()))

    assert not leaves(story, late)
    assert placed(story, late) == {"shop-serviceimport": {"member1"}}


def test_looking_again_at_what_is_chosen_changes_nothing(imports: None) -> None:
    story, _ = importing(service(), endpoints("a"))

    assert story.again() == 0


def conflict_on(story: Story, one: Template) -> str:
    attached = story.binding(one)
    assert attached is not None
    return attached.metadata.annotations.get("work.lifeboat.io/policy-conflict", "")


def conflicts(story: Story) -> list[str]:
    found = [one for one in story.store.objects.values() if isinstance(one, Event)]
    return [one.message for one in found if one.reason == "DependencyPolicyConflict"]


@pytest.mark.parametrize(
    ("wish", "field", "reported"),
    [
        (
            {"conflict_resolution": "Overwrite"},
            "conflict_resolution",
            "ConflictResolution conflicted (Overwrite vs Abort)",
        ),
        (
            {"preserve_resources_on_deletion": True},
            "preserve_resources_on_deletion",
            "PreserveResourcesOnDeletion conflicted (true vs false)",
        ),
    ],
)
def test_those_that_need_one_object_agree_and_who_differs_is_reported(
    wish: dict[str, Any], field: str, reported: str
) -> None:
    web, db, settings = needing("web"), needing("db"), config_map()
    ours = (
        policy("web", ResourceSelector("apps/v1", "Deployment", name="web"), propagate_deps=True, **wish),
        policy("db", ResourceSelector("apps/v1", "Deployment", name="db"), propagate_deps=True),
    )
    story = Story(*MEMBERS, *ours, web, db, settings)
    story.place(db, member2=3)
    story.place(web, member1=3)

    attached = story.binding(settings)
    assert attached is not None
    assert getattr(attached.spec, field) == wish[field]
    assert [one for one in conflicts(story) if reported in one]
    assert story.again() == 0

    story.delete(web)
    attached = story.binding(settings)
    assert attached is not None
    assert getattr(attached.spec, field) != wish[field]


def test_a_conflict_that_changes_is_reported_although_the_attached_binding_keeps_its_values() -> None:
    def wishes(name: str, **wish: Any) -> Policy:
        return policy(name, ResourceSelector("apps/v1", "Deployment", name=name), propagate_deps=True, **wish)

    web, db, settings = needing("web"), needing("db"), config_map()
    strict = wishes("web", conflict_resolution="Overwrite", preserve_resources_on_deletion=True)
    story = Story(*MEMBERS, strict, wishes("db", preserve_resources_on_deletion=False), web, db, settings)
    story.place(db, member2=3)
    story.place(web, member1=3)
    assert conflict_on(story, settings) == (
        "ConflictResolution conflicted (Overwrite vs Abort); PreserveResourcesOnDeletion conflicted (true vs false)"
    )

    closer = wishes("db", conflict_resolution="Overwrite", preserve_resources_on_deletion=False)
    story.edit(story.store.objects[closer.ref].with_spec(**{"conflict_resolution": "Overwrite"}))  # type: ignore[attr-defined]

    assert conflict_on(story, settings) == "PreserveResourcesOnDeletion conflicted (true vs false)"
    assert [text for text in conflicts(story) if "Overwrite vs Abort" not in text], conflicts(story)

    story.delete(db)
    assert conflict_on(story, settings) == ""


def test_an_edit_of_what_a_workload_needs_reaches_the_members_where_it_is() -> None:
    web, settings = needing(), config_map()
    story = story_of(web, settings)
    story.place(web, member1=3, member2=3)

    stored = story.template(settings)
    story.edit(stored.with_content({**stored.content, "data": {"a": "new"}}))

    sent = [work.spec.workload.manifests[0] for work in story.works().values()]
    assert [manifest["data"] for manifest in sent if manifest["kind"] == "ConfigMap"] == [{"a": "new"}] * 2


def test_an_edit_makes_the_works_of_an_attached_binding_due_and_a_first_claim_does_not() -> None:
    """A claim comes with a new binding, and 10,000 claims would make the Works controller look 10,000 times in vain."""
    settings = config_map()
    edited = settings.with_content({**settings.content, "data": {"a": "new"}})
    claimed = settings.with_meta(annotations={"propagationpolicy.karmada.io/name": "all"})
    router, by = Router([Works()]), Actor("jane")

    assert [mark.ref for mark in router.marks(settings, edited, by=by)] == [bindings.binding_ref(settings.ref)]
    assert list(router.marks(settings, claimed, by=by)) == []


def test_those_that_agree_get_no_message() -> None:
    web, db, settings = needing("web"), needing("db"), config_map()
    story = Story(*MEMBERS, policy("all", propagate_deps=True, conflict_resolution="Overwrite"), web, db, settings)
    story.place(web, member1=3)
    story.place(db, member2=3)

    attached = story.binding(settings)
    assert attached is not None
    assert attached.spec.conflict_resolution == "Overwrite"
    assert conflicts(story) == []


def test_an_attached_binding_that_an_import_has_written_waits_for_its_workload() -> None:
    """`lifeboat import` writes all bindings first: until its template is there, it is not known what a workload needs.

    The attached binding was deleted, and made again later without its permanent id.
    """
    before = story_of(needing(), config_map("settings"))
    before.place(needing(), member1=1)
    parent, attached = of_binding(before, needing()), of_binding(before, config_map("settings"))
    assert placed(before, config_map("settings")) == {"web-deployment": {"member1"}}

    story = Story(*MEMBERS, parent, attached)
    waiting = of_binding(story, config_map("settings"))
    story.add(policy("all", propagate_deps=True), config_map("settings"), needing())
    later = of_binding(story, config_map("settings"))

    assert [one.spec.required_by for one in (waiting, later)] == [attached.spec.required_by] * 2
    assert waiting.metadata.labels == attached.metadata.labels
    assert later.metadata.uid == attached.metadata.uid
    story.delete(needing())
    assert story.binding(config_map("settings")) is None
