"""A Namespace in which released objects are is released as well, and not deleted with all that was left in it
[member-writes]."""

from __future__ import annotations

from typing import Any

import pytest

from apps.clusters.client import MemberClient
from apps.simulator.members import Fleet
from controlplane.apimachinery.names import MANAGED_LABEL, MANAGED_LABEL_VALUE
from controlplane.clusters.questions import Discard, Ensure
from tests.apps.test_client import on_a_fleet, target

OURS = {MANAGED_LABEL: MANAGED_LABEL_VALUE}
SHOP = "/api/v1/namespaces/shop"
COPY = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "one", "namespace": "shop", "labels": OURS}}


def shop(**labels: str) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "shop", "labels": {**OURS, **labels}}}


@pytest.mark.parametrize("release", [True, False])
def test_a_namespace_is_deleted_unless_a_copy_was_left_in_it(release: bool) -> None:
    async def story(fleet: Fleet, client: MemberClient) -> None:
        member = target(fleet)
        for manifest in (shop(), COPY):
            assert (await client.ensure(Ensure(member, manifest, overwrite=False))).ok
        assert (await client.discard(Discard(member, COPY, release=release))).code == (200 if release else 404)
        assert (await client.ensure(Ensure(member, shop(team="a"), overwrite=False))).ok, "its labels still follow"

        await client.discard(Discard(member, shop()))

        left = await client.call(member, "GET", SHOP)
        assert left.ok is release
        assert (await client.call(member, "GET", f"{SHOP}/configmaps/one")).ok is release
        if release:
            metadata = left.body["metadata"]
            assert MANAGED_LABEL not in metadata["labels"]
            assert metadata["labels"]["team"] == "a"
            assert not metadata.get("annotations")

    on_a_fleet(story)()


@on_a_fleet
async def test_a_namespace_of_others_gets_no_note(fleet: Fleet, client: MemberClient) -> None:
    member = target(fleet)
    theirs = {**COPY, "metadata": {**COPY["metadata"], "namespace": "default"}}  # type: ignore[dict-item]  # a dict
    assert (await client.ensure(Ensure(member, theirs, overwrite=False))).ok
    before = (await client.call(member, "GET", "/api/v1/namespaces/default")).body

    assert (await client.discard(Discard(member, theirs, release=True))).ok

    assert (await client.call(member, "GET", "/api/v1/namespaces/default")).body == before
