"""What the parts of an application know of each other: who follows, for how long, and what all of them request."""

from __future__ import annotations

from datetime import timedelta

import pytest
from msgspec.structs import replace

from controlplane.estimate.request import NOTHING_ASKED, Bundle, Request
from controlplane.kinds.binding import Binding, Component, ObjectReference, ReplicaRequirements, TargetCluster
from controlplane.kinds.binding.colocation_index import application
from controlplane.scheduling.colocation import YOUNG, Applications, runs_pods
from controlplane.settings import GATES, Settings
from tests.builders.objects import START
from tests.core.test_colocation import part

SECOND = timedelta(seconds=1)
COMPONENTS = Settings(feature_gates={**GATES, "MultiplePodTemplatesScheduling": True})


def known(*parts: Binding, settings: Settings | None = None) -> Applications:
    return Applications({application(parts[0]): parts}, settings or Settings())


def requesting(name: str, replicas: int, cpu: str, *components: Component) -> Binding:
    one = part(name, replicas)
    needs = ReplicaRequirements(resource_request={"cpu": cpu})
    return replace(one, spec=replace(one.spec, replica_requirements=needs, components=components))


@pytest.mark.parametrize(
    ("age", "follows"), [(timedelta(), True), (YOUNG - SECOND, True), (YOUNG, False), (YOUNG + SECOND, False)]
)
def test_a_placed_part_without_pods_follows_until_it_is_no_longer_young(age: timedelta, follows: bool) -> None:
    settled, server = part("settings", kind="ConfigMap", on="a"), part("server", 2, on="b")
    later = known(settled, part("server", 2))

    assert known(settled, server).seen_by(settled, now=START + age).moves is follows
    assert (later.look_again_at(settled, now=START + age) is not None) is follows


@pytest.mark.parametrize(
    ("own", "other", "dry_run"),
    [
        ("", "b", False),  # not placed: it is scheduled as any part
        ("a", "", False),  # no part with pods is placed
        ("b", "b", False),  # it stands beside the pods
        ("a", "b", True),
    ],
)
def test_a_part_without_pods_stays_unless_the_pods_are_elsewhere(own: str, other: str, dry_run: bool) -> None:
    settled = part("settings", kind="ConfigMap", on=own)

    seen = known(settled, part("server", 2, on=other)).seen_by(settled, now=None if dry_run else START)

    assert seen.moves is False


@pytest.mark.parametrize(
    ("own", "before", "placed", "follows"),
    [
        ("a", "", "b", True),
        ("b", "", "b", False),
        ("a", "a", "b", False),  # the copy on a has not left yet
    ],
)
def test_a_part_follows_what_the_same_batch_has_placed_unless_it_is_beside_a_copy_of_it(
    own: str, before: str, placed: str, follows: bool
) -> None:
    settled, server = part("settings", kind="ConfigMap", on=own), part("server", 2, on=before)
    batch = known(settled, server)

    batch.placed(server, [TargetCluster(placed, 2)])

    assert batch.seen_by(settled, now=START).moves is follows


def test_it_is_checked_again_while_only_parts_without_pods_are_placed() -> None:
    settled, front = part("settings", kind="ConfigMap", on="a"), part("front", kind="Service", on="a")

    assert known(settled, front, part("server", 2)).look_again_at(settled, now=START) == START + SECOND
    assert known(settled, front, part("server", 2, on="a")).look_again_at(settled, now=START) is None


def test_the_cluster_with_more_parts_that_run_pods_is_nearer_than_one_with_more_parts() -> None:
    placed = [part("one", 1, on="b"), part("two", 1, on="b"), part("three", 1, on="a")]
    placed += [part(name, kind="ConfigMap", on="a") for name in ("four", "five", "six")]

    assert known(*placed).seen_by(part("new")).near == ("b", "a")


def test_a_part_is_not_one_of_its_others_however_its_name_was_read() -> None:
    stored = part("server", 2, on="a")
    again = stored.with_meta(name=stored.metadata.name.encode().decode())

    assert known(stored).seen_by(again).near == ()


def test_all_parts_are_requested_together_and_parts_that_cannot_be_read_count_as_pods() -> None:
    flink = requesting("flink", 1, "1", Component("job", 1), Component("task", 3))
    broken = requesting("broken", 4, "many")
    plain = requesting("plain", 2, "500m")
    half = Request((("cpu", 500),))

    with_gate = known(flink, broken, plain, settings=COMPONENTS).seen_by(plain)
    without = known(flink, broken, plain).seen_by(plain)

    assert with_gate.whole == Bundle(((8, NOTHING_ASKED), (2, half)))
    assert without.whole == Bundle(((4, NOTHING_ASKED), (2, half), (1, Request((("cpu", 1000),)))))


def test_a_part_runs_pods_if_its_kind_does_or_it_requests_resources() -> None:
    def of(kind: str, one: Binding) -> Binding:
        resource = ObjectReference("example.com/v1", kind, "x", "default")
        return replace(one, spec=replace(one.spec, resource=resource))

    daemons = of("DaemonSet", part("agent", kind="ConfigMap"))
    custom = of("SparkApplication", part("job", 2))
    text = part("text", kind="ConfigMap")

    assert [runs_pods(one) for one in (daemons, custom, text)] == [True, True, False]
