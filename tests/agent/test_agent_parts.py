"""Parts of the agent of a Pull member, without a control plane."""

from __future__ import annotations

import asyncio
import errno
import stat
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import orjson
import pytest

from apps.agent.certificates import renewal
from apps.agent.control_plane import ControlPlane
from apps.agent.credentials import Access, Unusable, read, write
from apps.agent.disk import Disk
from apps.agent.mirror import Mirror
from apps.agent.process import MemoryHost
from apps.agent.registration import NotTrusted, authority_in, is_registered
from apps.agent.reports import Reports
from apps.agent.store import AgentStore
from apps.members.answers import Answers
from apps.members.core import SHORTEST_PAUSE, Core, pause_after
from apps.members.pump import Pump
from controlplane.apimachinery.meta import Condition
from controlplane.apimachinery.names import UNREADABLE_ANNOTATION, WORK_FINALIZER
from controlplane.authentication.bootstrap_tokens import BootstrapToken, signed
from controlplane.clusters.questions import Answer
from controlplane.controllers.execution import Execution
from controlplane.controllers.work_status import WorkStatus
from controlplane.engine.decision import Decision, Put
from controlplane.engine.state import Actor
from controlplane.interpret import INTERPRETERS
from controlplane.kind import text_of
from controlplane.kinds import INTERPRETER_CUSTOMIZATION, WORK
from controlplane.kinds.work import ManifestStatus, ResourceIdentifier, Work
from controlplane.kinds.work import WorkStatus as Status
from controlplane.settings import Settings
from controlplane.wire.patch import merge_patch
from tests.builders import objects

TOKEN = BootstrapToken("abcdef", "0123456789abcdef", (), True, True)
KUBECONFIG = "clusters: [{cluster: {server: 'https://a', certificate-authority-data: UEVN}}]"
BY = Actor("execution", controller=True)
APPLIED = Status(conditions=(Condition("Applied", "True", "AppliedSuccessful", "", None, 1),))


def work(name: str = "web", *, generation: int = 1, status: Status | None = None, **meta: Any) -> Work:
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "default"}}
    conditions = () if status is None else status.conditions
    fields = {"uid": "u", "finalizers": (WORK_FINALIZER,), **meta}
    return objects.work(name, "edge", manifest=manifest, conditions=conditions, generation=generation, **fields)


def store(folder: Path) -> AgentStore:
    return AgentStore([Execution(), WorkStatus()], Disk(folder))


def test_the_authority_counts_only_with_a_signature_by_the_token() -> None:
    data = signed({"kubeconfig": KUBECONFIG}, [TOKEN])

    assert authority_in(data, TOKEN) == "PEM"
    for wrong in ({**data, "kubeconfig": KUBECONFIG.replace("UEVN", "T1RI")}, {"kubeconfig": KUBECONFIG}):
        with pytest.raises(NotTrusted, match="no signature by this token"):
            authority_in(wrong, TOKEN)


def test_a_kubeconfig_is_read_as_it_was_written_and_only_by_its_owner(tmp_path: Path) -> None:
    access = Access("https://a:6443", "AUTHORITY", token="secret")
    path = tmp_path / "agent" / "kubeconfig"

    write(path, access)

    assert read(path) == access
    assert "secret" not in repr(access)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert is_registered(path.parent)
    assert not is_registered(tmp_path)
    path.write_text("current-context: none")
    with pytest.raises(Unusable, match="no usable context"):
        read(path)


def test_a_certificate_is_renewed_after_its_share_of_time() -> None:
    begin = datetime(2026, 1, 1, tzinfo=UTC)

    assert renewal((begin, begin + timedelta(days=90)), 0.5) == begin + timedelta(days=45)


def test_what_was_read_and_done_outlives_the_process(tmp_path: Path) -> None:
    first = store(tmp_path)
    first.mirror(work(status=APPLIED))
    first.mirror(work("gone"))
    first.forget(work("gone").ref)
    first.disk.close()

    again = store(tmp_path)
    again.load(WORK)

    assert [item.metadata.name for item in again.list("work.karmada.io/Work")] == ["web"]
    assert again.objects[work().ref].status.conditions[0].reason == "AppliedSuccessful"  # type: ignore[attr-defined]


def test_a_damaged_state_on_disk_is_replaced(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    (tmp_path / "state.sqlite").write_bytes(b"no database" * 1000)

    first = store(tmp_path)
    first.load(WORK)
    first.mirror(work())
    first.disk.close()

    assert "cannot be used and was removed" in caplog.text
    assert [item.ref for item in Disk(tmp_path).objects(WORK)] == [work().ref]


def test_an_agent_works_on_when_its_disk_is_full_and_keeps_no_half_of_a_state(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.mirror(work("old"))
    assert kept.disk._connection is not None
    kept.disk._connection.execute("PRAGMA max_page_count = 2")

    kept.mirror(work("large", labels={"a": "x" * 100_000}))
    kept.forget(work("old").ref)

    assert [item.metadata.name for item in kept.list("work.karmada.io/Work")] == ["large"]
    assert list(Disk(tmp_path).objects(WORK)) == []


def test_an_agent_works_on_when_its_disk_becomes_read_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def refused(path: Path, missing_ok: bool = False) -> None:
        raise OSError(errno.EROFS, "Read-only file system", str(path))

    kept = store(tmp_path)
    assert kept.disk._connection is not None
    kept.disk._connection.execute("PRAGMA query_only = 1")
    monkeypatch.setattr(Path, "unlink", refused)

    kept.mirror(work("first"))
    kept.mirror(work("second"))

    assert [item.metadata.name for item in kept.list("work.karmada.io/Work")] == ["first", "second"]
    assert "could not be removed" in caplog.text


def test_a_newer_spec_keeps_the_status_that_was_found_out_here(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.mirror(work(status=APPLIED))
    kept.due.clear()

    kept.mirror(work())
    assert not kept.due, "an older status from outside is no change"
    kept.mirror(work(generation=2))

    held: Any = kept.objects[work().ref]
    assert (held.metadata.generation, held.status.conditions[0].reason) == (2, "AppliedSuccessful")
    assert kept.due["execution"]
    assert not kept.outgoing, "what comes from the control plane is not reported to it"


@pytest.mark.parametrize("changed", [{"uid": "v"}, {"creation_timestamp": objects.START + timedelta(hours=1)}])
def test_a_work_that_was_made_again_while_the_control_plane_was_away_is_applied(
    tmp_path: Path, changed: dict[str, Any]
) -> None:
    """The new Work has the generation of the deleted one, and may have its status."""
    kept = store(tmp_path)
    kept.mirror(work(status=APPLIED))
    kept.due.clear()

    kept.mirror(work(status=APPLIED, **changed))
    assert list(kept.due["execution"]) == [work().ref]
    (snapshot,) = Execution().load(kept, [work().ref])
    assert snapshot is not None
    assert not snapshot.subject.status.conditions

    kept.due.clear()
    kept.mirror(work(status=APPLIED, **changed))
    assert not kept.due


def test_what_controllers_write_is_reported_and_a_removed_work_is_released(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.mirror(work(deletion_timestamp=datetime(2026, 1, 1, tzinfo=UTC)))
    held: Any = kept.objects[work().ref]

    changed = held.with_status(conditions=APPLIED.conditions)
    kept.apply([(None, Decision(changes=(Put(changed, held),)))], by=BY)
    assert list(kept.outgoing) == [held.ref]
    held = kept.objects[work().ref]
    kept.apply([(None, Decision(changes=(Put(held.with_meta(finalizers=()), held),)))], by=BY)

    assert kept.released == {held.ref: ()}
    assert held.ref not in kept.objects


def test_a_work_that_changes_while_it_is_applied_is_not_claimed_a_second_time(tmp_path: Path) -> None:
    kept = store(tmp_path)
    kept.mirror(work())
    (claim,) = kept.claim("execution", shard=0, shards=1, limit=1, lease_seconds=1).claims
    ends = kept.now() + timedelta(seconds=30)
    kept.mirror(work(generation=2))

    kept.extend([(claim, ends)], lease_seconds=30)

    due = kept.next_due(["execution"])
    assert due is not None
    assert due > kept.now() + timedelta(seconds=20)


class Received(ControlPlane):
    """A control plane that holds one Work and merges patches into it."""

    def __init__(self, document: dict[str, Any], folder: Path) -> None:
        super().__init__(Access(server="http://127.0.0.1"), "edge", folder)
        self.document = document
        self.merged = asyncio.Event()

    async def patch(self, path: str, body: dict[str, Any], *, content_type: str = "", **query: str) -> Answer:
        self.document = merge_patch(self.document, body)
        self.merged.set()
        return Answer(200, self.document)


def test_a_report_removes_the_status_of_an_object_that_was_lost(tmp_path: Path) -> None:
    """Otherwise the object would count as healthy as soon as it is applied again, before it runs."""
    healthy = work(status=APPLIED).with_status(manifest_statuses=(ManifestStatus(health="Healthy"),))
    kept = store(tmp_path)
    kept.mirror(healthy)
    lost = healthy.with_status(conditions=(Condition("Applied", "False", "ObjectLost"),), manifest_statuses=())
    kept.apply([(None, Decision(changes=(Put(lost, healthy),)))], by=Actor("work_status", controller=True))

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def reported() -> dict[str, Any]:
        plane = Received(orjson.loads(text_of(healthy)), tmp_path)
        reports = Reports(kept, plane, in_thread=in_thread)
        reports.wake.set()
        running = asyncio.create_task(reports.run())
        await asyncio.wait_for(plane.merged.wait(), 30)
        running.cancel()
        await asyncio.wait([running])
        await plane.close()
        return plane.document

    assert asyncio.run(reported())["status"] == orjson.loads(text_of(lost))["status"]


def test_a_pump_ends_although_it_is_notified_in_the_same_moment(tmp_path: Path) -> None:
    async def ends() -> bool:
        held = store(tmp_path)
        host = MemoryHost(held, Settings(), lambda names: None)
        answers = Answers(host, Settings().members, changed=lambda works: None, read=lambda key: None)
        pump = Pump(Execution(), host, answers.answer, threads)
        running = asyncio.create_task(pump.run())
        async with asyncio.timeout(30):
            while "waiters:1" not in repr(pump.wake):  # it has claimed, and waits for a notification
                await asyncio.sleep(0)

        pump.wake.set()
        running.cancel()
        ended, _ = await asyncio.wait([running], timeout=5)

        running.cancel()
        await answers.close()
        host.close()
        held.disk.close()
        return bool(ended)

    with ThreadPoolExecutor(1) as threads:
        assert asyncio.run(ends())


def test_reports_of_a_work_after_many_others_are_one_write(tmp_path: Path) -> None:
    """Else the reports of new workloads would take the time in which others are applied."""

    async def marks() -> int:
        held = store(tmp_path)
        core = Core(MemoryHost(held, Settings(), lambda names: None), [WorkStatus()], Settings().members, threads=1)
        due = held.due.setdefault(WorkStatus.name, {})
        running = asyncio.create_task(core.marking())
        core.works_changed([work(f"web-{number}").ref for number in range(200)])
        while len(due) < 200:
            await asyncio.sleep(0)
        before, late = max(row.seq for row in due.values()), work("late").ref
        core.works_changed([late])
        await asyncio.sleep(3 * SHORTEST_PAUSE)
        core.works_changed([late])
        while late not in due:
            await asyncio.sleep(0)
        await asyncio.sleep(3 * SHORTEST_PAUSE)
        running.cancel()
        await core.close()
        return due[late].seq - before

    assert asyncio.run(marks()) == 1


@pytest.mark.parametrize(
    ("marked", "since", "pause"),
    [(0, 0.0, 0.05), (1, 0.0, 0.05), (100, 0.0, 0.5), (100, 0.2, 0.3), (10_000, 0.0, 1.0), (10_000, 60.0, 0.05)],
)
def test_a_report_long_after_a_write_of_many_does_not_wait_for_others(marked: int, since: float, pause: float) -> None:
    assert pause_after(marked, since) == pytest.approx(pause)


async def nothing() -> None:
    """Do nothing."""


class Listing(ControlPlane):
    """A control plane that answers each watch with these lists, one after the other."""

    def __init__(self, folder: Path, lists: dict[str, list[list[dict[str, Any]]]]) -> None:
        super().__init__(Access(server="http://127.0.0.1"), "edge", folder)
        self.lists = lists
        self.whole: list[bool] = []  # after each list, whether everything could be read

    async def follow(
        self,
        path: str,
        listed: Callable[[list[dict[str, Any]]], Awaitable[None]],
        changed: Callable[[str, dict[str, Any]], Awaitable[None]],
        *,
        unread: Callable[[], Awaitable[None]] = nothing,
        is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        for items in self.lists[path.rpartition("/")[2]]:
            await listed(items)
            for item in items:
                await changed("MODIFIED", item)
            self.whole.append(is_whole())


def test_what_an_agent_cannot_read_stays_as_it_was_and_stops_nothing_else(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Of a newer control plane, for example."""
    first, other = (orjson.loads(text_of(work(name))) for name in ("web", "db"))
    rule = {"metadata": {"name": "r"}, "spec": {"target": {"apiVersion": "a.io/v1", "kind": "A"}}}
    kept = store(tmp_path)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def followed(works: list[dict[str, Any]], rules: list[dict[str, Any]]) -> list[str]:
        plane = Listing(tmp_path, {"works": [works], "resourceinterpretercustomizations": [rules]})
        mirror = Mirror(kept, plane, Access(server="http://127.0.0.1"), in_thread=in_thread)
        await mirror.works()
        await mirror.rules(INTERPRETER_CUSTOMIZATION)
        await plane.close()
        return sorted(ref.name for ref in kept.objects)

    assert asyncio.run(followed([first, other], [rule])) == ["db", "r", "web"]
    before = dict(kept.objects)
    asyncio.run(followed([{**first, "spec": {"workload": 1}}, other], [{**rule, "spec": 1}]))
    assert kept.objects == before
    assert "the ResourceInterpreterCustomization r cannot be read and stays as it was" in caplog.text
    assert asyncio.run(followed([first], [])) == ["web"]


def test_a_work_whose_secret_the_control_plane_cannot_read_stays_as_it_was_until_it_can(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    login, other, new = (orjson.loads(text_of(work(name))) for name in ("login", "db", "new"))
    unread = {**login, "metadata": {**login["metadata"], "annotations": {UNREADABLE_ANNOTATION: "true"}}}
    unread["spec"] = {**login["spec"], "suspendDispatching": True}
    kept = store(tmp_path)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def followed(*lists: list[dict[str, Any]]) -> bool:
        plane = Listing(tmp_path, {"works": list(lists)})
        await Mirror(kept, plane, Access(server="http://127.0.0.1"), in_thread=in_thread).works()
        await plane.close()
        return plane.whole[-1]

    assert asyncio.run(followed([login, other]))
    before = kept.objects[work("login").ref]
    assert not asyncio.run(followed([unread, other, new]))

    assert kept.objects[before.ref] == before
    assert sorted(ref.name for ref in kept.objects) == ["db", "login", "new"]
    assert caplog.text.count("the Work login stays as it was") == 1
    assert asyncio.run(followed([unread, new], [login, new]))
    assert asyncio.run(followed([unread, new], [new])), "it was deleted while the watch was broken"


@pytest.mark.parametrize(("theirs", "reported"), [(True, False), (1, True)])
def test_a_status_that_the_control_plane_has_otherwise_is_reported_again(
    tmp_path: Path, theirs: Any, *, reported: bool
) -> None:
    """Also if only the type of a value differs: for Python, true equals 1."""
    kept = store(tmp_path)
    identifier = ResourceIdentifier(version="v1", kind="ConfigMap", namespace="default", name="web")
    seen = work().with_status(manifest_statuses=(ManifestStatus(identifier, {"ready": True}),))
    kept.mirror(seen)
    listed = orjson.loads(text_of(seen))
    listed["status"]["manifestStatuses"][0]["status"]["ready"] = theirs

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def followed() -> None:
        plane = Listing(tmp_path, {"works": [[listed]]})
        await Mirror(kept, plane, Access(server="http://127.0.0.1"), in_thread=in_thread).works()
        await plane.close()

    asyncio.run(followed())

    assert list(kept.outgoing) == ([seen.ref] if reported else [])


class Changing(Listing):
    """A control plane with nothing at first, and then these changes of what is watched."""

    def __init__(self, folder: Path, changes: list[tuple[str, dict[str, Any]]]) -> None:
        super().__init__(folder, {})
        self.changes = changes

    async def follow(
        self,
        path: str,
        listed: Callable[[list[dict[str, Any]]], Awaitable[None]],
        changed: Callable[[str, dict[str, Any]], Awaitable[None]],
        *,
        unread: Callable[[], Awaitable[None]] = nothing,
        is_whole: Callable[[], bool] = lambda: True,
    ) -> None:
        await listed([])
        for type_, item in self.changes:
            await changed(type_, item)
            self.whole.append(is_whole())


def test_a_work_that_is_deleted_while_the_control_plane_cannot_read_it_is_forgotten(tmp_path: Path) -> None:
    login = orjson.loads(text_of(work("login")))
    unread = {**login, "metadata": {**login["metadata"], "annotations": {UNREADABLE_ANNOTATION: "true"}}}
    kept = store(tmp_path)

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def followed() -> list[bool]:
        plane = Changing(tmp_path, [("ADDED", login), ("MODIFIED", unread), ("DELETED", unread)])
        await Mirror(kept, plane, Access(server="http://127.0.0.1"), in_thread=in_thread).works()
        await plane.close()
        return plane.whole

    assert asyncio.run(followed()) == [True, False, True]
    assert kept.objects == {}


@pytest.mark.parametrize(("then", "rule"), [([], "r"), ([{}], "r"), ([{"spec": 1}], "r"), (["DELETED"], "")])
def test_a_rule_of_a_user_is_used_as_soon_as_it_comes_and_no_longer_than_it_is_there(
    tmp_path: Path, then: list[Any], rule: str
) -> None:
    script = {"healthInterpretation": {"luaScript": "function InterpretHealth(o) return true end"}}
    spec = {"target": {"apiVersion": "a.io/v1", "kind": "A"}, "customizations": script}
    made = {"metadata": {"name": "r"}, "spec": spec}
    later = [("DELETED", made) if one == "DELETED" else ("MODIFIED", {**made, **one}) for one in then]

    async def in_thread(function: Callable[..., Any], *arguments: Any) -> Any:
        return function(*arguments)

    async def followed() -> None:
        plane = Changing(tmp_path, [("ADDED", made), *later])
        await Mirror(store(tmp_path), plane, Access(server="http://127.0.0.1"), in_thread=in_thread).rules(
            INTERPRETER_CUSTOMIZATION
        )
        await plane.close()

    try:
        asyncio.run(followed())
        assert INTERPRETERS.rule_of("a.io/v1", "A", "InterpretHealth").rpartition(" ")[2] == rule
    finally:
        INTERPRETERS.set_rules([])
