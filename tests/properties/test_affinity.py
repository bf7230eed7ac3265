"""Every form of the affinity rule agrees with the rule: the scheduler's masks, and the index of bindings."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from controlplane.apimachinery.selectors import LabelSelector, LabelSelectorRequirement
from controlplane.kinds.cluster import Cluster, ClusterSpec
from controlplane.kinds.policy import ClusterAffinity, FieldRequirement, FieldSelector
from controlplane.kinds.policy.affinity import affinity_index_values, chooses, cluster_index_values
from controlplane.scheduling.cluster_arrays import Fleet
from controlplane.settings import Settings
from tests.builders.objects import cluster

NAMES, KEYS, VALUES = ("a", "b", "c", "d"), ("env", "tier"), ("x", "y", "z")
several_values = st.lists(st.sampled_from(VALUES), max_size=3).map(tuple)
several_names = st.lists(st.sampled_from((*NAMES, "unknown")), max_size=3).map(tuple)

specs = st.builds(
    ClusterSpec,
    provider=st.sampled_from(("", *VALUES)),
    region=st.sampled_from(("", *VALUES)),
    zones=several_values,
)
labels = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))
operators = st.sampled_from(("In", "NotIn", "Exists", "DoesNotExist", "Like"))
fields = st.sampled_from(("provider", "region", "zone", "continent"))
requirements = st.builds(LabelSelectorRequirement, st.sampled_from(KEYS), operators, several_values)
field_requirements = st.builds(FieldRequirement, fields, st.sampled_from(("In", "NotIn", "Like")), several_values)
affinities = st.none() | st.builds(
    ClusterAffinity,
    label_selector=st.none() | st.builds(LabelSelector, labels, st.lists(requirements, max_size=2).map(tuple)),
    field_selector=st.none() | st.builds(FieldSelector, st.lists(field_requirements, max_size=2).map(tuple)),
    cluster_names=several_names,
    exclude=several_names,
)


@st.composite
def fleets(draw: st.DrawFn) -> list[Cluster]:
    return [replace(cluster(name, labels=draw(labels)), spec=draw(specs)) for name in NAMES]


@given(fleets(), affinities)
def test_the_scheduler_chooses_the_clusters_that_the_rule_chooses(
    clusters: list[Cluster], affinity: ClusterAffinity | None
) -> None:
    chosen = Fleet.of(clusters, settings=Settings()).selected_by(affinity)

    assert chosen.tolist() == [chooses(affinity, member) for member in clusters]


@given(fleets(), affinities)
def test_the_index_finds_an_affinity_under_every_cluster_it_chooses(
    clusters: list[Cluster], affinity: ClusterAffinity | None
) -> None:
    found_under = set(affinity_index_values(affinity))

    for member in clusters:
        if chooses(affinity, member):
            assert not found_under.isdisjoint(cluster_index_values(member)), member.metadata.name
