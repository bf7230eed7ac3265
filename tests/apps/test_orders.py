"""One order about many evictions: given to each that waits, with a constant number of statements."""

from __future__ import annotations

import pytest
from django.test import Client

from apps.failover.orders import order_all
from apps.objects.grouping import Groups
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Delete, Put, Save
from controlplane.engine.state import Actor
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, orders_by_cluster
from controlplane.kinds.rows import EVICTED, Judgement, eviction_key
from tests.apps.pages import found, in_queue, stored
from tests.apps.statements import statements
from tests.builders.bare import START, binding
from tests.builders.objects import eviction


def verbs(key: str, cluster: str = "member1") -> list[str]:
    return [one.verb for one in orders_by_cluster(found(Ref.parse(key.rpartition("|")[0]))).get(cluster, ())]


def test_each_eviction_that_waits_gets_the_order_and_the_others_are_named(root: Client) -> None:
    waits = in_queue("web", "api")
    left = in_queue("gone", state=EVICTED)["gone"]

    given = order_all([*waits.values(), left, "B:shop/none|member1"], HOLD, reason="we look", by="ana")

    assert {row.key for row in given.done} == set(waits.values())
    assert given.gone == ("B:shop/none|member1",)
    assert "has already been evicted from cluster member1" in given.refused[left]
    assert [verbs(key) for key in waits.values()] == [[HOLD], [HOLD]]
    assert verbs(left) == []


def test_two_copies_of_a_binding_get_the_order_in_one_write(root: Client) -> None:
    (made,) = stored(binding("web", "member1", "member2"))
    judged = (Judgement("gone", "NoExecute", START, START),)
    rows = [
        eviction("web", name).__class__(eviction_key(made.ref, name), str(made.ref), name, due_at=START, judged=judged)
        for name in ("member1", "member2")
    ]
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))

    order_all([row.key for row in rows], EXPEDITE, reason="first", by="ana")

    assert [verbs(row.key, row.cluster) for row in rows] == [[EXPEDITE], [EXPEDITE]]


def test_a_dry_run_stores_nothing_and_finds_the_same(root: Client) -> None:
    key = in_queue("web")["web"]

    given = order_all([key], HOLD, reason="we look", by="ana", dry_run=True)

    assert [row.key for row in given.done] == [key]
    assert verbs(key) == []


def test_an_eviction_whose_binding_is_gone_gets_no_order(root: Client) -> None:
    key = in_queue("web")["web"]
    live = found(Ref.parse(key.rpartition("|")[0]))
    store().apply([(None, Decision(changes=(Delete(live),)))], by=Actor("test"))

    assert order_all([key], HOLD, reason="we look", by="ana").gone == (key,)


def test_an_order_that_lost_against_another_write_is_given_again(root: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    keys = in_queue("web", "api")
    apply, calls = store().apply, []

    def late(decisions: object, **more: object) -> object:
        if not calls:
            calls.append(1)
            live = found(Ref.parse(keys["web"].rpartition("|")[0]))
            apply([(None, Decision(changes=(Put(live.with_spec(replicas=9), live),)))], by=Actor("bob"))
        return apply(decisions, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(store(), "groups", Groups(late))
    given = order_all(keys.values(), HOLD, reason="we look", by="ana")

    assert {row.key for row in given.done} == set(keys.values())
    assert [verbs(key) for key in keys.values()] == [[HOLD], [HOLD]]
    assert found(Ref.parse(keys["web"].rpartition("|")[0])).spec.replicas == 9


def test_an_order_about_many_costs_as_many_statements_as_one_about_two(root: Client) -> None:
    few, many = in_queue("a1", "a2"), in_queue(*(f"b{number}" for number in range(40)))
    order_all(few.values(), HOLD, reason="warm", by="ana")

    with statements() as for_two:
        order_all(few.values(), EXPEDITE, reason="now", by="ana")
    with statements() as for_forty:
        order_all(many.values(), EXPEDITE, reason="now", by="ana")

    assert len(for_forty) == len(for_two)
