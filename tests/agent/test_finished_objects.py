"""A Job that has finished and disappears from its member does not run again there [member-drift]."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from controlplane.apimachinery.meta import Ref
from controlplane.clusters.lost_objects import OBJECT_LOST
from controlplane.kinds.work import FINISHED
from tests.agent.site import Site

JOB: dict[str, Any] = {
    "apiVersion": "batch/v1",
    "kind": "Job",
    "metadata": {"name": "migrate", "namespace": "default"},
    "spec": {"template": {"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "migrate"}]}}},
}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "once", "namespace": "default"},
    "spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "once"}]},
}
JOBS, PODS = "/apis/batch/v1/namespaces/default/jobs/migrate", "/api/v1/namespaces/default/pods/once"
CASES: dict[str, tuple[dict[str, Any], str, dict[str, str], bool]] = {
    "a Job that is complete": (JOB, JOBS, {}, True),
    "a Pod that succeeded": (POD, PODS, {"phase": "Succeeded"}, True),
    "a Pod that failed, which nothing else replaces": (POD, PODS, {"phase": "Failed"}, False),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_finished_is_not_applied_again(tmp_path: Path, case: str) -> None:
    """A member may delete finished Jobs, for example because a policy of its own sets ttlSecondsAfterFinished."""
    manifest, path, status, finished = CASES[case]

    async def story() -> None:
        await site.join("member", mode="Pull")
        real = site.fleet["real"]
        ref = await site.want("member", manifest)
        await site.until(lambda: site.said(ref).status == "True")
        uid = (await site.ask(real, "GET", path))["metadata"]["uid"]
        if status:
            await site.ask(real, "PATCH", f"{path}/status", {"status": status})
        await site.until(lambda: has_ended(site, ref))

        await site.ask(real, "DELETE", path, {"propagationPolicy": "Background", "gracePeriodSeconds": 0})

        if not finished:
            await site.until(lambda: site.said(ref, "Retained").status == "False" and site.said(ref).status == "True")
            assert (await site.ask(real, "GET", path))["metadata"]["uid"] != uid
            return
        await site.until(lambda: site.said(ref).reason == FINISHED)
        await site.want("member", manifest, generation=2)
        later = await site.want("member", {**JOB, "metadata": {**JOB["metadata"], "name": "later"}})
        await site.until(lambda: site.said(later).status == "True")
        assert await site.ask(real, "GET", path) is None
        assert has_ended(site, ref), "its result stays"

    with Site(tmp_path) as site:
        site.run(story())


@pytest.mark.parametrize(
    ("ends", "finished"),
    [
        ([{"phase": "Succeeded"}], True),
        ([{"phase": "Failed"}], False),
        ([{"phase": ["no text"]}, "unreadable"], False),
        (["begins to be deleted", {"phase": "Succeeded"}], False),  # it was ended by its deletion
        ([{"phase": "Succeeded"}, "begins to be deleted"], True),
    ],
)
def test_what_is_deleted_as_soon_as_it_has_finished_is_not_applied_again(
    tmp_path: Path, ends: list[Any], *, finished: bool
) -> None:
    """A member may set a time to live of 0: its last state and its end are reported together."""

    async def story() -> None:
        await site.join("member", mode="Pull")
        real = site.fleet["real"]
        ref = await site.want("member", POD)
        await site.until(lambda: site.get(ref).status.manifest_statuses)
        uid = (await site.ask(real, "GET", PODS))["metadata"]["uid"]
        written = threading.Event()
        writes = asyncio.create_task(site.core.in_thread(written.wait))  # the store has other work just now
        for step in ends:
            if step == "begins to be deleted":
                await site.ask(real, "PATCH", PODS, {"metadata": {"finalizers": ["example.com/waits"]}})
                await site.ask(real, "DELETE", PODS, {"gracePeriodSeconds": 0})
            else:
                await site.ask(real, "PATCH", f"{PODS}/status", {"status": step})
        await site.ask(real, "PATCH", PODS, {"metadata": {"finalizers": None}})
        await site.ask(real, "DELETE", PODS, {"gracePeriodSeconds": 0})
        await site.until(lambda: site.core.answers.watches.cached("member", POD) is None)
        written.set()
        await writes

        if not finished:
            await site.until(lambda: site.said(ref, "Retained").status == "False" and site.said(ref).status == "True")
            assert (await site.ask(real, "GET", PODS))["metadata"]["uid"] != uid
            return
        await site.until(lambda: site.said(ref).reason in (FINISHED, OBJECT_LOST))
        assert site.said(ref).reason == FINISHED
        assert await site.ask(real, "GET", PODS) is None
        assert has_ended(site, ref), "its result is known"

    with Site(tmp_path) as site:
        site.run(story())


def test_a_pod_that_ends_because_it_is_deleted_is_applied_again(tmp_path: Path) -> None:
    """The kubelet gives a Pod that is deleted, for example by a drain of its node, a phase of a finished one."""

    async def story() -> None:
        await site.join("member", mode="Pull")
        real = site.fleet["real"]
        ref = await site.want("member", POD)
        await site.until(lambda: site.get(ref).status.manifest_statuses)
        uid = (await site.ask(real, "GET", PODS))["metadata"]["uid"]
        await site.ask(real, "PATCH", PODS, {"metadata": {"finalizers": ["example.com/waits"]}})
        await site.ask(real, "DELETE", PODS, {"gracePeriodSeconds": 0})
        await site.ask(real, "PATCH", f"{PODS}/status", {"status": {"phase": "Succeeded"}})
        other = await site.want("member", {**POD, "metadata": {**POD["metadata"], "name": "other"}})
        await site.until(lambda: site.get(other).status.manifest_statuses)

        await site.ask(real, "PATCH", PODS, {"metadata": {"finalizers": None}})
        await site.until(lambda: site.said(ref).reason in (FINISHED, OBJECT_LOST))
        await site.until(lambda: site.said(ref).status == "True")

        again = await site.ask(real, "GET", PODS)
        assert again is not None
        assert again["metadata"]["uid"] != uid

    with Site(tmp_path) as site:
        site.run(story())


def has_ended(site: Site, ref: Ref) -> bool:
    """Test whether the Work has the status of a Job or Pod that has ended."""
    statuses = [reported.status or {} for reported in site.get(ref).status.manifest_statuses]
    return any(status.get("phase") in ("Succeeded", "Failed") or status.get("completionTime") for status in statuses)
