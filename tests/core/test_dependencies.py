"""What a workload needs beside it goes where it goes, and stays on the old cluster as long as it does."""

from __future__ import annotations

from typing import Any

from controlplane import bindings
from controlplane.controllers.dependencies import Dependencies
from controlplane.kinds.binding import Binding, GracefulEvictionTask
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY
from controlplane.kinds.template import Template
from controlplane.settings import GATES, Settings
from tests.core.propagation_story import START, Story, cluster, deployment, policy

MEMBERS = tuple(cluster(f"member{number}") for number in (1, 2, 3))


def config(name: str = "settings") -> Template:
    metadata = {"name": name, "namespace": "default", "uid": f"uid-{name}", "generation": 1}
    return Template.fold({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": {"a": "b"}})


def needing(name: str = "web", *, needs: str = "settings") -> Template:
    """A Deployment whose environment comes from a ConfigMap."""
    web = deployment(name)
    pod: dict[str, Any] = web.spec["template"]["spec"]
    container = {**pod["containers"][0], "envFrom": [{"configMapRef": {"name": needs}}]}
    spec = {**web.spec, "template": {**web.spec["template"], "spec": {**pod, "containers": [container]}}}
    return web.with_content({**web.content, "spec": spec}).with_meta(generation=1)


def placed(story: Story, one: Template) -> dict[str, set[str]]:
    """Which workloads want the object where."""
    found = story.store.objects.get(bindings.binding_ref(one.ref))
    if not isinstance(found, Binding):
        return {}
    return {by.name: {target.name for target in by.clusters} for by in found.spec.required_by}


def story_of(*objects: Any, settings: Settings | None = None) -> Story:
    return Story(*MEMBERS, policy("all", propagate_deps=True), *objects, settings=settings)


def test_it_follows_its_workload_without_a_policy_of_its_own() -> None:
    web, settings = needing(), config()
    story = story_of(web, settings)

    story.place(web, member1=3)

    assert placed(story, settings) == {"web-deployment": {"member1"}}


def test_it_stays_on_the_old_cluster_as_long_as_its_workload_does() -> None:
    web, settings = needing(), config()
    story = story_of(web, settings)
    story.place(web, member1=3)

    story.place(web, (GracefulEvictionTask("member1", GRACEFULLY, creation_timestamp=START),), member2=3)
    assert placed(story, settings) == {"web-deployment": {"member1", "member2"}}
    story.place(web, member2=3)

    assert placed(story, settings) == {"web-deployment": {"member2"}}


def test_a_direct_eviction_takes_it_along_at_once() -> None:
    web, settings = needing(), config()
    story = story_of(web, settings)

    story.place(web, (GracefulEvictionTask("member1", DIRECTLY, creation_timestamp=START),), member2=3)

    assert placed(story, settings) == {"web-deployment": {"member2"}}


def test_two_workloads_share_it_and_the_last_one_takes_it_away() -> None:
    web, db, settings = needing("web"), needing("db"), config()
    story = story_of(web, db, settings)
    story.place(web, member1=3)
    story.place(db, member2=3)
    assert placed(story, settings) == {"web-deployment": {"member1"}, "db-deployment": {"member2"}}

    story.delete(web)
    assert placed(story, settings) == {"db-deployment": {"member2"}}


def test_an_object_made_later_is_found_by_those_that_wait_for_it() -> None:
    web, settings = needing(), config()
    story = story_of(web)
    story.place(web, member1=3)

    story.add(settings)

    assert placed(story, settings) == {"web-deployment": {"member1"}}


def test_with_the_gate_off_nothing_follows() -> None:
    web, settings = needing(), config()
    story = story_of(web, settings, settings=Settings(feature_gates={**GATES, "PropagateDeps": False}))

    story.place(web, member1=3)

    assert placed(story, settings) == {}


def test_running_again_changes_nothing() -> None:
    web = needing()
    story = story_of(web, config())
    story.place(web, member1=3)

    assert story.again() == 0
    assert any(isinstance(one, Dependencies) for one in story.controllers)
