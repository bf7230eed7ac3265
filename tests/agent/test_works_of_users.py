"""The object of a Work that a user wrote is updated, watched and removed as any other [work-objects]."""

from __future__ import annotations

from pathlib import Path

from controlplane.apimachinery.meta import Ref
from controlplane.apimachinery.names import WORK_FINALIZER
from controlplane.kinds import WORK
from tests.agent.site import Site, decoded
from tests.agent.test_member_faults import PATH, config_map, held


def test_the_object_of_a_users_work_follows_it_to_its_end(tmp_path: Path) -> None:
    async def written(value: str, *, generation: int) -> Ref:
        """Store a Work as its author wrote it, without marks in its manifest."""
        document = {
            "apiVersion": "work.karmada.io/v1alpha1",
            "kind": "Work",
            "metadata": {
                **{"name": "own", "namespace": "karmada-es-member", "uid": "uid-own", "generation": generation},
                "finalizers": [WORK_FINALIZER],
            },
            "spec": {"workload": {"manifests": [config_map("settings", value)]}},
        }
        work = decoded(WORK, document)
        await site.core.in_thread(site.store.mirror, work)
        await site.until(lambda: site.said(work.ref).observed_generation == generation)
        ref: Ref = work.ref
        return ref

    async def story() -> None:
        await site.join("member", mode="Pull")
        ref = await written("first", generation=1)
        await written("second", generation=2)
        assert (site.said(ref).status, await held(site, "settings")) == ("True", "second")

        await site.ask(site.fleet["real"], "PATCH", f"{PATH}/settings", {"data": {"value": "theirs"}})
        await site.until(lambda: site.said(ref, "Drifted").reason == "PutBack")
        assert await held(site, "settings") == "second"

        await site.remove(ref)
        await site.until(lambda: site.get(ref) is None)
        assert await held(site, "settings") is None

    with Site(tmp_path) as site:
        site.run(story())
