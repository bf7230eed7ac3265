"""What members do wrong at each step of create, update and delete, as a Push and as a Pull cluster; and drift.

All stories of a mode run beside each other on one site. Each has a cluster and an object of its own.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.propagation.aggregation import aggregated
from tests.agent.site import WITHIN, Refusal, Site

MODES = ("Push", "Pull")
PATH = "/api/v1/namespaces/default/configmaps"


class Row(NamedTuple):
    """A fault. `says`: what the condition Applied says; "": the member cannot be asked, and nothing is said.

    `removes`: a Work that is deleted goes during the fault, because the member has no such object.
    """

    refusal: Refusal
    says: str
    removes: bool = False


TERMINATING = (
    'configmaps "x" is forbidden: unable to create new content in namespace default because it is being terminated'
)
DENIED = 'admission webhook "policy.example.com" denied the request: the tag "latest" is not allowed'
ROWS = {
    "down": Row(Refusal(0, "", every=True), ""),
    "lost": Row(Refusal(404, "<html>default backend - 404</html>", every=True, page=True), ""),
    "unauthorized": Row(Refusal(401, "Unauthorized", every=True), "HTTP 401: Unauthorized"),
    "conflict": Row(
        Refusal(409, "Operation cannot be fulfilled: the object has been modified"),
        "has been modified",
    ),
    "quota": Row(Refusal(403, "exceeded quota: team, requested: count/configmaps=1, used: 5"), "exceeded quota: team"),
    "admission": Row(Refusal(400, DENIED), DENIED),
    "large": Row(Refusal(413, "Request entity too large: limit is 3145728"), "limit is 3145728"),
    "etcd": Row(Refusal(500, "etcdserver: request is too large"), "etcdserver: request is too large"),
    "no-kind": Row(
        Refusal(404, "the server could not find the requested resource", every=True, under=PATH), "not find", True
    ),
    "terminating": Row(Refusal(403, TERMINATING), "because it is being terminated"),
    "busy": Row(Refusal(429, "the server has received too many requests"), "too many requests"),
}


def config_map(name: str, value: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "default"},
        "data": {"value": value},
    }


def bound_message(site: Site, ref: Ref) -> str:
    """Return what the binding of a Work shows."""
    (item,) = aggregated([site.get(ref)])
    return item.applied_message


async def held(site: Site, name: str) -> Any:
    found = await site.ask(site.fleet["real"], "GET", f"{PATH}/{name}")
    return None if found is None else found["data"]["value"]


async def fault_story(site: Site, cluster: str, row: Row, mode: str) -> None:
    """Create, update and delete an object, each first with the fault and then without it."""
    gate = await site.join(cluster, mode=mode)

    gate.refusal = row.refusal
    ref = await site.want(cluster, config_map(cluster, "1"))
    await fails(site, ref, row)
    assert await held(site, cluster) is None
    gate.refusal = None
    await site.until(lambda: site.said(ref).status == "True")
    assert await held(site, cluster) == "1"

    gate.refusal = row.refusal
    await site.want(cluster, config_map(cluster, "2"), generation=2)
    await fails(site, ref, row)
    assert await held(site, cluster) == "1", "the last state stays"
    gate.refusal = None
    await site.until(lambda: site.said(ref).status == "True" and site.said(ref).observed_generation == 2)
    assert await held(site, cluster) == "2"

    gate.refusal = row.refusal
    await site.remove(ref)
    if row.removes:
        await site.until(lambda: site.get(ref) is None)
        return
    if row.says and not row.refusal.every:
        await site.until(lambda: site.said(ref).reason == "CleanupFailed")
        assert row.says in site.said(ref).message
    else:
        await tried(site, cluster)
    assert site.get(ref) is not None, "a Work goes only when its object has gone"
    assert await held(site, cluster) == "2"
    gate.refusal = None
    await site.until(lambda: site.get(ref) is None)
    assert await held(site, cluster) is None
    await site.until(lambda: site.store.released.get(ref) == ())


async def fails(site: Site, ref: Ref, row: Row) -> None:
    """Wait until the Work says what is wrong, or for as long as a member that cannot be asked was asked in vain."""
    if row.says:
        await site.until(lambda: site.said(ref).status == "False")
        assert row.says in site.said(ref).message
        assert row.says in bound_message(site, ref), "the binding shows it"
        await site.until(lambda: ("SyncWorkFailed", site.said(ref).message) in site.events(ref))
    else:
        await tried(site, ref.namespace.removeprefix("karmada-es-"))


async def tried(site: Site, cluster: str) -> None:
    """Wait until the cluster was found not Ready, or refuses access."""
    ref = Ref("cluster.karmada.io/Cluster", "", cluster)
    await site.until(lambda: not site.get(ref).answers)


async def expired_story(site: Site, cluster: str, mode: str) -> None:
    """A certificate that has expired is lost access: nothing is deleted, and all goes on when it is renewed."""
    tls, place = site.safe["tls"], f"{PATH}/{cluster}"
    await site.join(cluster, mode=mode, member=tls)

    await site.safe.set_fault("tls", "expired")
    ref = await site.want(cluster, config_map(cluster, "1"))
    await has_expired(site, ref)
    await site.safe.set_fault("tls", "none")
    await site.until(lambda: site.said(ref).status == "True")

    await site.safe.set_fault("tls", "expired")
    await site.want(cluster, config_map(cluster, "2"), generation=2)
    await has_expired(site, ref)
    await site.safe.set_fault("tls", "none")
    await site.until(lambda: site.said(ref).status == "True")
    assert (await site.ask(tls, "GET", place))["data"] == {"value": "2"}

    await site.safe.set_fault("tls", "expired")
    await site.remove(ref)
    await tried(site, cluster)
    assert site.get(ref) is not None, "a Work goes only when its object has gone"
    await site.safe.set_fault("tls", "none")
    await site.until(lambda: site.get(ref) is None)
    assert await site.ask(tls, "GET", place) is None


async def has_expired(site: Site, ref: Ref) -> None:
    """Wait until the Work reports it; the cluster is not lost."""
    await site.until(lambda: site.said(ref).status == "False")
    assert "certificate of the member has expired" in bound_message(site, ref)
    cluster = site.get(Ref("cluster.karmada.io/Cluster", "", ref.namespace.removeprefix("karmada-es-")))
    assert cluster.ready == "True"


async def leftover_story(site: Site, cluster: str, mode: str) -> None:
    """An object that others made is not touched, neither when the Work comes nor when it goes."""
    await site.join(cluster, mode=mode)
    await site.ask(site.fleet["real"], "POST", PATH, config_map(cluster, "theirs"))

    ref = await site.want(cluster, config_map(cluster, "ours"))
    await site.until(lambda: site.said(ref).status == "False")
    assert "not managed by Lifeboat" in bound_message(site, ref)
    await site.want(cluster, config_map(cluster, "ours, later"), generation=2)
    await site.until(lambda: site.said(ref).observed_generation == 2)
    assert site.said(ref).status == "False"
    assert await held(site, cluster) == "theirs"
    await site.remove(ref)
    await site.until(lambda: site.get(ref) is None)

    assert await held(site, cluster) == "theirs"


async def restored_story(site: Site, cluster: str, mode: str) -> None:
    """A member that was restored from an older backup lost an object, has another in an older state, and counts its
    versions from an earlier number: both are applied again."""
    gate = await site.join(cluster, mode=mode)
    real, backup = site.fleet["real"], site.fleet["backup"]
    for _ in range(40):  # the versions of the member are far beyond those of its backup
        await site.ask(real, "PATCH", "/api/v1/namespaces/default", {"metadata": {"labels": {"n": str(_)}}})
    lost, old = [await site.want(cluster, config_map(f"{cluster}-{name}", "2")) for name in ("lost", "old")]
    await site.until(lambda: site.said(lost).status == site.said(old).status == "True")
    manifest = site.get(old).manifest
    await site.ask(backup, "POST", PATH, {**manifest, "data": {"value": "1"}})

    gate.member = backup
    gate.cut()

    async def is_back() -> bool:
        found = [await site.ask(backup, "GET", f"{PATH}/{cluster}-{name}") for name in ("lost", "old")]
        return all(one is not None and one["data"]["value"] == "2" for one in found)

    async with asyncio.timeout(30):
        while not await is_back():
            await asyncio.sleep(0.05)
    assert site.said(old).status == "True"

    for ref in (lost, old):
        await site.remove(ref)
        await site.until(lambda ref=ref: site.get(ref) is None)
        assert await site.ask(backup, "GET", f"{PATH}/{ref.name}") is None


async def drift_story(site: Site, cluster: str, mode: str) -> None:
    """What is changed on the member is put back with an Event, what others add stays, what is deleted comes back."""
    gate, real, place = await site.join(cluster, mode=mode), site.fleet["real"], f"{PATH}/{cluster}"
    ref = await site.want(cluster, config_map(cluster, "1"))
    await site.until(lambda: site.said(ref).status == "True" and site.get(ref).status.manifest_statuses)

    await site.ask(real, "PATCH", place, {"data": {"value": "x", "more": "y"}, "metadata": {"labels": {"a": "b"}}})
    await site.until(lambda: site.said(ref, "Drifted").reason == "PutBack")
    found = await site.ask(real, "GET", place)
    assert (found["data"], found["metadata"]["labels"]["a"]) == ({"value": "1", "more": "y"}, "b")
    put_back = ("PutBack", "Changed on the member: data.value was changed. It was put back.")
    await site.until(lambda: put_back in site.events(ref))

    reported = await site.want(cluster, config_map(f"{cluster}-r", "1"), **{"failover.lifeboat.io/drift": "Report"})
    await site.until(lambda: site.said(reported).status == "True" and site.get(reported).status.manifest_statuses)
    before = gate.writes
    await site.ask(real, "PATCH", place, {"metadata": {"labels": {"a": "c"}}})
    await site.ask(real, "PATCH", f"{PATH}/{cluster}-r", {"data": {"value": "x"}})
    await site.until(lambda: site.said(reported, "Drifted").reason == "ChangeReported")  # the watch keeps the order
    assert await held(site, f"{cluster}-r") == "x"
    assert site.said(ref, "Drifted").reason == "PutBack"
    assert gate.writes == before, "neither a label of others nor a reported change is a reason to write"

    lost = await site.want(cluster, config_map(f"{cluster}-l", "1"))
    await site.until(lambda: site.said(lost).status == "True" and site.get(lost).status.manifest_statuses)
    await site.ask(real, "DELETE", f"{PATH}/{cluster}-l")
    await site.until(lambda: any(reason == "ObjectLost" for reason, _ in site.events(lost)))
    await site.until(lambda: site.said(lost).status == "True")
    assert await held(site, f"{cluster}-l") == "1"


async def one_without_the_kind_story(site: Site, cluster: str, mode: str) -> None:
    """If one member does not know a kind, the other members go on at each step, and the binding names that member."""
    without, knowing = await site.join(cluster, mode=mode), f"{cluster}-knowing"
    await site.join(knowing, mode=mode)
    without.refusal = ROWS["no-kind"].refusal
    names = {name: f"{cluster}-on-{name.rpartition('-')[2]}" for name in (cluster, knowing)}

    for generation, value in ((1, "1"), (2, "2")):
        works = {
            name: await site.want(name, config_map(own, value), generation=generation) for name, own in names.items()
        }
        fits, lacks = works[knowing], works[cluster]
        await site.until(lambda ref=fits, seen=generation: site.said(ref).observed_generation == seen)
        await site.until(lambda ref=lacks: site.said(ref).status == "False")
        assert site.said(works[knowing]).status == "True"
        assert await held(site, names[knowing]) == value
        shown = {one.cluster_name: one for one in aggregated([site.get(ref) for ref in works.values()])}
        assert (shown[knowing].applied, shown[cluster].applied) == (True, False)
        assert "could not find the requested resource" in shown[cluster].applied_message

    for ref in works.values():
        await site.remove(ref)
    await site.until(lambda: all(site.get(ref) is None for ref in works.values()))
    assert await held(site, names[knowing]) is None


STORIES = {
    "one-without-the-kind": one_without_the_kind_story,
    "leftover": leftover_story,
    "restored": restored_story,
    "drift": drift_story,
    "expired": expired_story,
}


def begun(site: Site, mode: str) -> dict[str, Future[None]]:
    """Begin all stories of a mode at the same time. Return them by the names of their clusters."""
    faults = {f"{name}-{mode.lower()}": row for name, row in ROWS.items()}
    others = {f"{name}-{mode.lower()}": story for name, story in STORIES.items()}
    futures = {name: site.begin(fault_story(site, name, row, mode)) for name, row in faults.items()}
    return futures | {name: site.begin(story(site, name, mode)) for name, story in others.items()}


@pytest.mark.parametrize("mode", MODES)
def test_a_fault_is_reported_costs_nothing_and_is_over_when_it_is_over(tmp_path: Path, mode: str) -> None:
    failed = []
    with Site(tmp_path) as site:
        for name, story in begun(site, mode).items():
            if (error := story.exception(4 * WITHIN)) is not None:
                error.add_note(f"the story of {name}")
                failed.append(error)
    if failed:
        raise BaseExceptionGroup(f"{len(failed)} stories failed", failed)
