"""A rule of a user that does not answer delays the objects that it interprets, no others [resource-interpreter]."""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from msgspec.structs import replace

from apps.agent.process import MemoryHost
from apps.members.pump import Pump
from controlplane.clusters.questions import Answer, Question
from controlplane.controllers.work_status import WorkStatus
from controlplane.interpret import INTERPRETERS, Unanswered
from controlplane.kinds.interpreter_webhook import ClientConfig, Webhook, WebhookRule
from controlplane.settings import Settings
from tests.agent.site import Site
from tests.agent.test_agent_parts import store
from tests.agent.test_member_faults import PATH, config_map
from tests.apps.tls_server import TlsServer
from tests.builders.objects import work

OBJECTS = 30


@contextmanager
def hanging() -> Iterator[Webhook]:
    """Yield a webhook that says what ConfigMaps keep on their members, and never answers."""
    with TlsServer() as server:
        config = ClientConfig(url=f"{server.url}hang", ca_bundle=base64.b64encode(server.certificate).decode())
        rule = WebhookRule(("Retain",), ("",), ("v1",), ("ConfigMap",))
        try:
            yield Webhook("kept.example.com", config, (rule,), timeout_seconds=30)
        finally:
            INTERPRETERS.set_rules([])


def test_the_store_of_an_agent_is_free_while_a_rule_for_many_objects_does_not_answer(tmp_path: Path) -> None:
    """The heartbeat of an agent uses the store: without one for 40 s its cluster would count as lost."""

    async def story(webhook: Webhook) -> float:
        await site.join("member", mode="Pull")
        names = [f"web-{number}" for number in range(OBJECTS)]
        wanted = [await site.want("member", config_map(name, "1")) for name in names]
        await site.until(lambda: all(site.said(ref).status == "True" for ref in wanted))
        INTERPRETERS.set_rules([], [("hooks", webhook)])
        for name in names:
            await site.ask(site.fleet["real"], "PATCH", f"{PATH}/{name}", {"metadata": {"labels": {"theirs": "1"}}})
        await site.until(lambda: len(site.host._interpretation._pending) >= OBJECTS // 2)
        loop = asyncio.get_running_loop()
        began = loop.time()
        await site.core.in_thread(int)
        return loop.time() - began

    with Site(tmp_path) as site:
        with hanging() as webhook:
            waited = site.run(story(webhook))
        site.run(site.until(lambda: not site.host._interpretation._pending))
    assert waited < 2


def test_what_a_member_reports_is_not_lost_because_a_rule_has_not_answered_yet(tmp_path: Path) -> None:
    async def ask(question: Question) -> Answer:
        raise Unanswered(())

    async def story() -> bool:
        held = store(tmp_path)
        host = MemoryHost(held, Settings(), lambda names: None)
        reported = work("web")
        held.mirror(replace(reported, metadata=replace(reported.metadata, finalizers=())))
        pump = Pump(WorkStatus(), host, ask, threads)
        due = held.due.setdefault(WorkStatus.name, {})
        held.mark(WorkStatus.name, [reported.ref])
        first = due[reported.ref].due_at
        running = asyncio.create_task(pump.run())
        async with asyncio.timeout(30):
            while reported.ref in due and due[reported.ref].due_at == first:
                await asyncio.sleep(0)
        running.cancel()
        await asyncio.wait([running])
        host.close()
        held.disk.close()
        return reported.ref in due

    with ThreadPoolExecutor(1) as threads:
        assert asyncio.run(story())
