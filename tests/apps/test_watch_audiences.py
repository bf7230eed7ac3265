"""A change is encoded once for all watches that select alike, and each watch gets every change once and in order."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from django.contrib.auth.models import User
from msgspec.structs import replace

from apps.api.authorization import Attributes
from apps.api.streams import Stream
from apps.api.watch_events import Event, in_version
from apps.api.watch_hub import Audience, Watcher, audience_of
from apps.objects.listing import Logged
from controlplane.apimachinery.selectors import EVERYTHING
from controlplane.kind import KINDS
from controlplane.propagation.definitions import kind_of
from controlplane.wire.request import Choice
from tests.builders import templates

ALLOWED = Attributes(User(username="u"), "watch", resource="configmaps")


def stream(*, name: str = "", convert: str = "", since: int = 0) -> Stream:
    resource = KINDS["ConfigMap"].resource
    choice = Choice("", name, EVERYTHING, ())
    return Stream(allowed=ALLOWED, kind="ConfigMap", resource=resource, choice=choice, since=since, convert=convert)


def changes(*versions: int, name: str = "one") -> list[Event]:
    texts = (
        json.dumps({"metadata": {"name": name, "resourceVersion": str(version)}}, separators=(",", ":")).encode()
        for version in versions
    )
    return [
        Event(Logged(version, "ConfigMap", "default", name, "MODIFIED", text, text))
        for version, text in zip(versions, texts, strict=True)
    ]


class Client:
    """A client of a watch, and what it was sent. `reads` False: nothing more fits."""

    def __init__(self, of: Stream, *, waits: bool = True) -> None:
        self.sent: list[bytes] = []
        self.reads = True
        self.watcher = Watcher(of)
        self.watcher.write, self.watcher.waits = self._write, waits

    def _write(self, chunk: bytes) -> bool:
        if self.reads:
            self.sent.append(chunk)
        return self.reads

    @property
    def queued(self) -> list[int]:
        return [item.change.version for item in self.watcher.pending]


def spread(clients: Sequence[Client], events: Sequence[Event]) -> None:
    """Hand changes to the watches of one audience."""
    (_,) = {audience_of(client.watcher.stream) for client in clients}
    audience = Audience(clients[0].watcher.stream)
    audience.watchers |= {client.watcher for client in clients}
    audience.spread(events)


async def _handed_out() -> None:
    waiting, other = Client(stream(name="one")), Client(stream(name="one"))
    busy = Client(stream(name="one"), waits=False)
    stalled = Client(stream(name="one"))
    stalled.reads = False
    ahead = Client(stream(name="one", since=7))
    spread([waiting, other, busy, stalled, ahead], changes(7, 8))

    (chunk,) = waiting.sent
    assert chunk.count(b'"type":"MODIFIED"') == 2
    size, _, rest = chunk.partition(b"\r\n")
    assert int(size, 16) == len(rest) - 2
    assert other.sent[0] is chunk, "it is encoded once"
    assert (waiting.queued, waiting.watcher.seen) == ([], 8)
    assert (busy.sent, busy.queued, busy.watcher.seen) == ([], [7, 8], 0)
    assert (stalled.sent, stalled.queued) == ([], [7, 8])
    assert (ahead.sent, ahead.queued) == ([], [8])

    spread([waiting, busy], changes(9))
    assert len(waiting.sent) == 2
    assert busy.queued == [7, 8, 9], "what is queued is sent first"
    spread([waiting], changes(9))
    assert len(waiting.sent) == 2, "what was sent is not sent again"
    spread([waiting], changes(10, name="two"))
    assert len(waiting.sent) == 2, "the watch does not select this object"


def test_a_change_is_sent_to_the_watches_that_wait_and_queued_for_the_others() -> None:
    asyncio.run(_handed_out())


async def _of_tables() -> None:
    table = Client(stream(convert="Table"))
    spread([table], changes(1))
    assert (table.sent, table.queued) == ([], [1])


def test_rows_of_tables_are_sent_by_their_watch_because_the_first_row_brings_the_columns() -> None:
    asyncio.run(_of_tables())


def test_watches_with_another_selection_or_form_are_another_audience() -> None:
    found = [stream(), stream(name="one"), stream(convert="Table"), stream(convert="PartialObjectMetadata")]
    assert len({audience_of(each) for each in found}) == 4
    assert audience_of(stream(since=3)) == audience_of(stream(since=4))


async def _of_an_edited_definition() -> None:
    default = {"type": "object", "default": {"seats": 2}, "properties": {"seats": {"type": "integer"}}}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": default}}}
    version = {"name": "v1", "served": True, "storage": True, "schema": schema}
    kind = kind_of(templates.definition(versions=[version], generation=2))
    assert kind is not None
    text = b'{"apiVersion":"example.io/v1","kind":"Boat","metadata":{"resourceVersion":"5","name":"one"}}'
    event = Event(Logged(5, "example.io/Boat", "default", "one", "MODIFIED", text, None))
    stream_ = replace(stream(), served=kind)
    with ThreadPoolExecutor(2) as pool:
        ended = asyncio.ensure_future(in_version(pool, stream_, event))
        shown = asyncio.gather(*(in_version(pool, stream_, event) for _ in range(3)))
        await asyncio.sleep(0)
        ended.cancel()
        first, *others = await shown
    assert json.loads(first.change.document)["spec"] == {"seats": 2}
    assert all(other is first for other in others)


def test_a_change_is_shown_as_the_definition_says_once_for_all_watches_also_if_one_of_them_ends() -> None:
    asyncio.run(_of_an_edited_definition())
