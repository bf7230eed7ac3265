"""The digest of the clusters changes with everything that decides whether a copy finds a cluster."""

from __future__ import annotations

from controlplane.eviction.capacity_digest import CapacityDigest
from controlplane.kinds.cluster import Cluster
from tests.builders.objects import cluster, no_execute

MEMBERS = (cluster("member1"), cluster("member2"))


def changed() -> list[Cluster]:
    """Return member2 with one change each: its taints, its readiness, its APIs."""
    return [cluster("member2", taints=[no_execute()]), cluster("member2", ready="False"), cluster("member2", apis=())]


def test_equal_clusters_have_the_same_digest_in_every_process() -> None:
    first, second = CapacityDigest(), CapacityDigest()

    assert first.digest(MEMBERS) == second.digest(MEMBERS) == first.digest(list(MEMBERS))


def test_each_change_gives_another_digest_and_its_end_the_first_one() -> None:
    kept = CapacityDigest()
    before = kept.digest(MEMBERS)

    digests = []
    for other in changed():
        digests.append(kept.digest((MEMBERS[0], other)))
        assert digests[-1] == CapacityDigest().digest((MEMBERS[0], other))
        assert kept.digest(MEMBERS) == before

    assert len({before, *digests}) == 1 + len(changed())
