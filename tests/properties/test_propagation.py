"""What holds of propagation whatever the placement: one Work per wanted cluster, nothing twice, none without target."""

from __future__ import annotations

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from controlplane.apimachinery.selectors import LabelSelector
from controlplane.eviction import leftovers
from controlplane.kinds.binding import AggregatedStatusItem, BindingSnapshot, GracefulEvictionTask, TargetCluster
from controlplane.kinds.policy import DIRECTLY, GRACEFULLY, ResourceSelector
from controlplane.propagation import aggregation, bindings, matching, works
from tests.builders.objects import START, cluster, policy
from tests.builders.templates import deployment
from tests.core.propagation_story import Story

CLUSTERS = ("a", "b", "c", "d")
targets = st.dictionaries(st.sampled_from(CLUSTERS), st.integers(1, 5), max_size=4)
modes = st.sampled_from((GRACEFULLY, DIRECTLY))
tasks = st.lists(st.tuples(st.sampled_from(CLUSTERS), modes), max_size=2, unique_by=lambda one: one[0])
names = st.sampled_from(("p", "q", "r"))
priorities = st.integers(-2, 2)
selectors = st.sampled_from(
    (
        ResourceSelector("apps/v1", "Deployment"),
        ResourceSelector("apps/v1", "Deployment", name="web"),
        ResourceSelector("apps/v1", "Deployment", name="other"),
        ResourceSelector("apps/v1", "Deployment", label_selector=LabelSelector({"app": "web"})),
        ResourceSelector("apps/v1", "StatefulSet"),
    )
)
steps = st.lists(st.tuples(targets, tasks), min_size=1, max_size=4)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(steps)
def test_works_follow_any_sequence_of_placements(sequence: list[tuple[dict[str, int], list[tuple[str, str]]]]) -> None:
    web = deployment()
    story = Story(*(cluster(name) for name in CLUSTERS), policy("all"), web)

    evicted = False  # gracefully, at some time
    for placed, left in sequence:
        found = tuple(GracefulEvictionTask(name, mode, creation_timestamp=START) for name, mode in left)
        story.place(web, found, **placed)
        for name, work in story.works().items():
            if work.metadata.deletion_timestamp is not None:
                story.remove_from_member(name)
        binding = story.binding(web)
        assert binding is not None

        wanted, present = {one.name for one in binding.spec.clusters}, set(story.works())
        evicted = evicted or any(mode == GRACEFULLY for _, mode in left)
        unwanted = present - set(binding.clusters_kept())
        assert wanted <= present
        assert evicted or not unwanted
        assert all(leftovers.is_leftover(story.works()[name]) for name in unwanted)  # until others are healthy
        for one in binding.spec.clusters:
            assert story.works()[one.name].manifest["spec"]["replicas"] == one.replicas
        assert story.again() == 0


@given(
    st.lists(st.tuples(st.sampled_from(("p", "q", "r")), selectors, priorities, st.booleans()), max_size=6),
    st.randoms(),
)
def test_the_best_policy_does_not_depend_on_the_order_they_come_in(found, random) -> None:  # type: ignore[no-untyped-def]
    policies = [
        policy(f"{name}{index}", selector, namespace="default" if near else "", priority=priority)
        for index, (name, selector, priority, near) in enumerate(found)
    ]
    web = deployment()

    first = matching.best(policies, web)
    random.shuffle(policies)

    assert matching.best(policies, web) == first
    if first is None:
        assert not any(matching.policy_precision(one, web) for one in policies)
    else:
        assert matching.policy_precision(first, web)
        assert not first.cluster_scoped or not any(
            matching.policy_precision(one, web) for one in policies if not one.cluster_scoped
        )


@given(targets, targets)
def test_a_cluster_is_a_target_once_and_its_own_result_comes_first(
    own: dict[str, int], parents: dict[str, int]
) -> None:
    required = BindingSnapshot(name="p", clusters=tuple(TargetCluster(*one) for one in parents.items()))
    binding = bindings.create(deployment(), policy(), gates={}, now=START).with_spec(
        clusters=tuple(TargetCluster(*one) for one in own.items()), required_by=(required,)
    )

    found = {one.name: one.replicas for one in works.targets(binding)}

    assert len(list(works.targets(binding))) == len(found)
    assert found == {**parents, **own}


@given(targets, st.dictionaries(st.sampled_from(CLUSTERS), st.booleans()))
def test_fully_applied_means_every_kept_cluster_and_no_other(placed: dict[str, int], applied: dict[str, bool]) -> None:
    binding = bindings.create(deployment(), policy(), gates={}, now=START).with_spec(
        clusters=tuple(TargetCluster(*one) for one in placed.items())
    )
    items = [AggregatedStatusItem(name, None, good) for name, good in applied.items()]

    said = aggregation.fully_applied(binding, items)

    assert (said.status == "True") is (bool(placed) and applied == dict.fromkeys(placed, True))


@given(targets)
def test_a_refreshed_binding_keeps_what_others_decided(placed: dict[str, int]) -> None:
    web = deployment()
    old = bindings.create(web, policy(), gates={}, now=START).with_spec(
        clusters=tuple(TargetCluster(*one) for one in placed.items()),
        graceful_eviction_tasks=(GracefulEvictionTask("z"),),
    )

    new = bindings.refresh(old, deployment(replicas=9), policy("other", priority=3), gates={})

    assert new.spec.clusters == old.spec.clusters
    assert new.spec.graceful_eviction_tasks == old.spec.graceful_eviction_tasks
    assert bindings.refresh(new, deployment(replicas=9), policy("other", priority=3), gates={}) is new
