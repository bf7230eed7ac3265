"""One batch of each controller, and one chunk of each fan-out, asks the database as often for 500 objects as for 10.

Every controller has a case of its own (see `batches`) in which its very first batch has to write something about every
object, so none passes by standing idle; then it looks at the same objects once more. Where the key is one object
(fleet, evictions) or the batch is one by declaration (rebalancer, namespace_content, eviction_records, drains,
failbacks), what it reads and writes grows instead.

`apply` splits what it writes into transactions: statements are counted in what a batch reads and in each transaction,
with what is looked up for it; the longest counts. `LIFEBOAT_WRITE_QUERY_COUNTS=1` writes the file the counts are
compared with.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from msgspec.structs import replace

from apps.development.fleet import store_all
from apps.objects import batch
from apps.objects.arrays import BinaryCursor
from apps.objects.store import DjangoStore
from controlplane.apimachinery.meta import Object, Ref
from controlplane.authentication.questions import Issued, NewTokens
from controlplane.clusters.questions import Answer, Collect, Observe
from controlplane.controllers import CONTROLLERS
from controlplane.engine.cascade import followers
from controlplane.engine.controller import Controller
from controlplane.engine.decision import Decision, Save
from controlplane.engine.run import World, run_batch
from controlplane.engine.state import Actor, Outcome
from controlplane.eviction.rate import TakeTokens, Tokens
from controlplane.kind import KINDS
from controlplane.kinds.rows import Row
from tests.apps.batches import fleet, garbage, members, propagation, scheduling
from tests.apps.batches.stored import Case
from tests.core.fleet_story import FAILOVER

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.slow]

BATCHES = fleet.BATCHES | scheduling.BATCHES | propagation.BATCHES | members.BATCHES | garbage.BATCHES
FAN_OUTS = fleet.FAN_OUTS | scheduling.FAN_OUTS | propagation.FAN_OUTS | members.FAN_OUTS
FILE = Path(__file__).with_name("batch_counts.json")
SIZES = (30, 500)  # both above unstorable.MAX_DECISIONS_WITH_STEPS: Events of steps are rows of their own
SETTINGS = replace(
    FAILOVER,
    feature_gates={**FAILOVER.feature_gates, "ResourceQuotaEstimate": True},
    resource_eviction_rate=1e6,
    secondary_resource_eviction_rate=1e6,
)
APIS = [{"groupVersion": "apps/v1", "resources": [{"name": "deployments", "kind": "Deployment"}]}]


class Tally:
    """The statements of one batch: in what it reads, in each transaction with what is looked up for it, and how many
    rows they wrote."""

    def __init__(self) -> None:
        self.reading = 0
        self.transactions: list[int] = []
        self.lines = 0  # of the log, with their objects: the database refuses to write other objects than these
        self.writes: list[BinaryCursor] = []
        self.writing = False

    def count(self, query: str, params: Sequence[Any], sent: BinaryCursor) -> None:
        if not self.writing:
            self.reading += 1
            return
        self.transactions[-1] += 1
        own = "objects_counter" in query or "objects_due" in query
        if "objects_written(" in query:
            self.lines += params[-1]
        elif not own and any(verb in query for verb in ("INSERT", "UPDATE", "DELETE")):
            self.writes.append(sent)

    @property
    def rows(self) -> int:
        """Return how many rows were written. Statements are sent without waiting, so they know only afterwards."""
        return self.lines + sum(max(sent.rowcount, 0) for sent in self.writes)

    @property
    def counts(self) -> dict[str, int]:
        return {"reading": self.reading, "transaction": max(self.transactions, default=0)}


class CountedStore(DjangoStore):
    """Tells a tally when it writes, and when one transaction is over."""

    def __init__(self, tallies: list[Tally]) -> None:
        super().__init__(controllers=CONTROLLERS, observe=lambda timing: tallies[-1].transactions.append(0))
        self.tallies = tallies

    def apply(self, *decisions: Any, **how: Any) -> list[Outcome]:
        tally = self.tallies[-1]
        tally.transactions.append(0)
        tally.writing = True
        try:
            return super().apply(*decisions, **how)
        finally:
            tally.writing = False


@pytest.fixture(autouse=True)
def declared_kinds() -> Iterator[None]:
    """Only those: some controllers ask once for every kind there is, and other tests bring kinds of their own."""
    brought = [kind for kind in KINDS if KINDS.is_custom(kind)]
    KINDS.set_custom(())
    yield
    KINDS.set_custom(brought)


@pytest.fixture
def tallies(monkeypatch: pytest.MonkeyPatch) -> list[Tally]:
    """Statements are added to the last tally of this list; none, none counted.

    Transactions are larger than usual, so that one of them has every statement of a case with 500 objects.
    """
    monkeypatch.setattr(batch, "MAX_OBJECTS", 600)
    found: list[Tally] = []
    run = BinaryCursor.run

    def counted(self: BinaryCursor, query: Any, params: Sequence[Any] = ()) -> BinaryCursor:
        done = run(self, query, params)
        if found:
            found[-1].count(query, params, done)
        return done

    monkeypatch.setattr(BinaryCursor, "run", counted)
    return found


def answer(question: Any) -> Any:
    """Everybody outside is well and says yes."""
    if isinstance(question, TakeTokens):
        return Tokens(dict(question.wanted), -1.0)
    if isinstance(question, NewTokens):
        return Issued(tuple(f"token-{number}" for number in range(question.count)))
    return [None if one is None else _of_member(one) for one in question]


def _of_member(question: Any) -> Answer:
    if isinstance(question, Collect):
        return Answer(200, {"version": {"gitVersion": "v1.32.0"}, "apis": APIS, "nodes": [], "pods": []})
    if isinstance(question, Observe):
        return Answer(200, {**question.manifest, "status": {"replicas": 2, "readyReplicas": 2}})
    return Answer(200, {})


class Played(NamedTuple):
    first: Tally
    reached: int  # objects that are due for the controller besides the keys
    again: Tally  # of a look at the same keys when all is decided


def played(name: str, case: Case, tallies: list[Tally]) -> Played:
    """Return what one batch cost."""
    controller = next(one for one in CONTROLLERS if one.name == name.partition(" ")[0])
    before = DjangoStore()  # nothing is made due by what it stores
    objects = [one for one in case.stored if isinstance(one, Object)]
    assert store_all(before, objects, by="jane") == len(objects)
    if values := [Save(one) for one in case.stored if isinstance(one, Row)]:
        before.apply([(None, Decision(changes=tuple(values)))], by=Actor("jane"))
    store = CountedStore(tallies)
    first = looked(controller, store, case.keys, tallies)
    due_now = store.claim(controller.name, shard=0, shards=1, limit=2000, lease_seconds=0).claims
    reached = len({one.ref for one in due_now} - set(case.keys))
    for _ in range(case.batches):
        again = looked(controller, store, case.keys, tallies)
    return Played(first, reached, again)


def looked(controller: Controller, store: DjangoStore, keys: Sequence[Ref], tallies: list[Tally]) -> Tally:
    """Make the keys due; return what the next batch cost."""
    store.mark(controller.name, keys)
    tallies.append(Tally())
    following = followers(controller, CONTROLLERS, SETTINGS)
    world = World(answer=answer)
    report = run_batch(controller, store, SETTINGS, world=world, limit=len(keys), following=following)
    tally = tallies.pop()
    assert not report.failures, report.failures[0].trace
    assert (report.claimed, report.lost) == (len(keys), 0)
    return tally


def recorded(what: str, name: str, counts: dict[str, int]) -> dict[str, int]:
    """Return what the file says; with LIFEBOAT_WRITE_QUERY_COUNTS=1 it says what was counted."""
    known: dict[str, dict[str, dict[str, int]]] = json.loads(FILE.read_text()) if FILE.exists() else {}
    if os.environ.get("LIFEBOAT_WRITE_QUERY_COUNTS"):
        known.setdefault(what, {})[name] = counts
        FILE.write_text(json.dumps(known, indent=2) + "\n")
    return known.get(what, {}).get(name, {})


def counted(case: Case, name: str, tallies: list[Tally], flush: Callable[[], None]) -> dict[str, int]:
    """Return what a case cost in an empty database, its second look included."""
    flush()
    first, reached, again = played(name, case, tallies)
    done = reached + first.rows
    assert done >= case.writes, f"{reached} objects were made due, {first.rows} rows written; wanted {case.writes}"
    return {**first.counts, "again": again.reading}


@pytest.mark.parametrize("name", BATCHES)
def test_a_batch_asks_as_often_for_500_objects_as_for_30(
    name: str, tallies: list[Tally], flush: Callable[[], None]
) -> None:
    few, many = (counted(BATCHES[name](size), name, tallies, flush) for size in SIZES)

    assert few == many
    assert recorded("batches", name, many) == many


@pytest.mark.parametrize("name", FAN_OUTS)
def test_a_chunk_of_a_fan_out_asks_as_often_for_500_objects_as_for_30(
    name: str, tallies: list[Tally], flush: Callable[[], None]
) -> None:
    few, many = (counted(FAN_OUTS[name](size), name, tallies, flush) for size in SIZES)

    assert few == many
    assert recorded("fan-outs", name, many) == many


def test_every_controller_has_a_case() -> None:
    how = "add a case, and remove that of a controller that is gone: the docstring of tests/apps/batches says how"
    assert {name.partition(" ")[0] for name in BATCHES} == {one.name for one in CONTROLLERS}, how
    fanning = {one.name for one in CONTROLLERS if any(watch.fan_out for watch in one.watches)}
    assert {name.partition(" ")[0] for name in FAN_OUTS} == fanning, how


def test_the_file_says_nothing_about_others() -> None:
    known = json.loads(FILE.read_text())

    assert {what: set(of) for what, of in known.items()} == {"batches": set(BATCHES), "fan-outs": set(FAN_OUTS)}
