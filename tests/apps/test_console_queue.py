"""The page of the queue shows what the database has, gives orders after a dry run, and costs the same at any length."""

from __future__ import annotations

import re
from datetime import timedelta
from html import unescape
from typing import Any
from urllib.parse import urlencode

import pytest
from django.test import Client
from msgspec.structs import replace

from apps.api.kept_queues import KeptQueues
from apps.console import queue
from apps.objects.configuration import REF
from apps.objects.models import ChangeLog
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.engine.decision import Decision, Save
from controlplane.engine.state import Actor
from controlplane.eviction.operator_orders import EXPEDITE, HOLD, orders_by_cluster
from controlplane.kinds.binding import GracefulEvictionTask
from controlplane.kinds.rows import EVICTED, HELD, RECOVERING, FleetState, Judgement, Stop, eviction_key
from tests.apps.pages import found, in_queue, stored
from tests.apps.statements import statements
from tests.builders import objects
from tests.builders.bare import START, binding
from tests.builders.objects import eviction
from tests.builders.placements import by_room, duplicated

HTML = "text/html"


def text(client: Client, path: str, *, status: int = 200) -> str:
    """Return the text of a page, without tags."""
    answer = client.get(path, HTTP_ACCEPT=HTML)
    assert answer.status_code == status, answer.content
    return plain(answer.content.decode())


def plain(body: str) -> str:
    return " ".join(unescape(re.sub(r"<[^>]+>", " ", body)).split())


def orders(name: str) -> list[str]:
    one = found(Ref("work.karmada.io/ResourceBinding", "shop", name))
    return [order.verb for order in orders_by_cluster(one).get("member1", ())]


def saved(*rows: Any) -> None:
    store().apply([(None, Decision(changes=tuple(map(Save, rows))))], by=Actor("test"))


def test_an_empty_queue_says_so(root: Client) -> None:
    shown = text(root, "/queue")

    assert "No eviction waits" in shown
    assert "The queue is empty" in shown
    assert "kubectl get evictions -A" in shown


def test_an_empty_queue_names_the_copies_that_still_move(root: Client) -> None:
    task = GracefulEvictionTask("member1", creation_timestamp=START)
    moved = objects.binding("web", by_room("member2"), on={"member2": 1}).with_spec(graceful_eviction_tasks=(task,))
    stored(objects.cluster("member1"), moved)

    assert "The queue is empty, but 1 copy still moves" in text(root, "/queue")


def test_each_item_has_its_place_reason_origin_and_time(root: Client) -> None:
    in_queue("web", "api")
    judged = (Judgement("gone", "NoExecute", START, START, wait_seconds=0),)
    saved(*(replace(eviction(name, "member1"), judged=judged) for name in ("web", "api")))
    saved(replace(eviction("old", "member1"), state=HELD, reason="NoRefuge", message="no cluster has room"))

    shown = text(root, "/queue")

    assert "3 evictions waiting" in shown
    assert "1 to 3 of 3" in shown
    assert shown.index(" api ") < shown.index(" web ") < shown.index(" old ")
    assert "taint gone:NoExecute" in shown
    assert "NoRefuge: no cluster has room" in shown
    assert "/bindings/shop/web" in root.get("/queue", HTTP_ACCEPT=HTML).content.decode()
    assert "web" not in text(root, "/queue?state=Held").split("1 to 1 of 1")[1]
    assert "No item matches this filter" in text(root, "/queue?cluster=member9")


def test_an_item_shows_where_its_copy_would_go(root: Client) -> None:
    anywhere = objects.binding("web", duplicated(least=1, most=1), on={"member1": 2}, scheduled=False)
    stored(objects.cluster("member1", ready="False"), objects.cluster("member2"), anywhere)
    saved(replace(eviction("web", "member1"), key=eviction_key(anywhere.ref, "member1"), binding=str(anywhere.ref)))

    assert "a replacement for each lost copy: member2" in text(root, "/queue")


def test_while_redis_gives_no_tokens_the_pages_and_the_api_name_that(root: Client) -> None:
    stored(objects.cluster("member1", ready="False"), objects.cluster("member2"), objects.cluster("member3"))
    in_queue("web")
    assert root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"}).status_code == 303
    item = "/apis/failover.lifeboat.io/v1alpha1/namespaces/shop/evictions"
    before = text(root, "/queue")
    stop = Stop(START, "no tokens: Redis grants no tokens")

    saved(FleetState("queue", stops=(stop,)))

    assert stop.why not in before
    assert stop.why in text(root, "/queue")
    status = root.get(item, HTTP_ACCEPT="application/json").json()["items"][0]["status"]
    assert (status["estimate"], status["reason"]) == ("stopped", "NoTokens")
    assert "estimatedAt" not in status
    fleet = root.get("/apis/failover.lifeboat.io/v1alpha1/fleetstatuses/fleet", HTTP_ACCEPT="application/json").json()
    assert f"Nothing is evicted: {stop.why}." in fleet["status"]["sentence"]


def test_a_long_queue_costs_as_many_statements_as_a_short_one(root: Client) -> None:
    in_queue("a1", "a2")
    text(root, "/queue")
    with statements() as for_two:
        text(root, "/queue")
    in_queue(*(f"b{number:03}" for number in range(130)))

    with statements() as for_all:
        shown = text(root, "/queue")

    assert "1 to 40 of 132" in shown
    assert len(for_all) == len(for_two)
    assert "121 to 132 of 132" in text(root, "/queue?offset=120")


@pytest.mark.parametrize("verb", [HOLD, EXPEDITE])
def test_an_order_is_a_dry_run_first_and_then_stored_with_reason_and_name(root: Client, verb: str) -> None:
    in_queue("web", "api", "other")
    query = f"verb={verb}&item=shop/web.member1&item=shop/api.member1"

    shown = text(root, f"/queue/order?{query}")
    assert f"{verb}: 2 evictions from member1, in 1 namespace." in shown
    assert "evictions/web.member1 namespaces/shop/evictions/api.member1; do kubectl create --raw" in shown
    assert orders("web") == []

    sent = {"verb": verb, "item": "shop/web.member1,shop/api.member1", "concerned": "2"}
    refused = root.post("/queue/order", sent)
    assert refused.status_code == 422
    assert "Write the reason" in refused.content.decode()
    done = root.post("/queue/order", {**sent, "reason": "we look"})

    assert (done.status_code, done["Location"]) == (303, "/queue")
    assert (orders("web"), orders("api"), orders("other")) == ([verb], [verb], [])
    logged = ChangeLog.objects.filter(name="web").latest("version")
    assert (logged.actor, logged.reason) == ("root", f"Eviction{verb}: we look")


def test_the_dry_run_of_an_order_says_what_becomes_of_each_workload(root: Client) -> None:
    anywhere = objects.binding("web", duplicated(least=1, most=1), on={"member1": 2}, scheduled=False)
    stored(objects.cluster("member1", ready="False"), objects.cluster("member2"), anywhere)
    saved(replace(eviction("web", "member1"), key=eviction_key(anywhere.ref, "member1"), binding=str(anywhere.ref)))
    item = "item=default/web-deployment.member1"

    skipped, first, held = (text(root, f"/queue/order?verb={verb}&{item}") for verb in ("Skip", EXPEDITE, HOLD))

    assert "the copy of default/web-deployment stays on cluster member1 while its present taints last" in skipped
    assert "leaves cluster member1 before all others; a replacement for each lost copy: member2" in first
    assert "the copy of default/web-deployment stays on cluster member1 until it is released" in held


def test_the_dry_run_of_an_expedite_says_that_a_tolerated_taint_is_waited_for(root: Client) -> None:
    """Only what is due is evicted. An operator who expedites otherwise waits for a copy that does not leave."""
    anywhere = objects.binding("web", duplicated(least=1, most=1), on={"member1": 2}, scheduled=False)
    stored(objects.cluster("member1", ready="False"), objects.cluster("member2"), anywhere)
    due = store().now() + timedelta(hours=1)
    later = eviction(anywhere.ref, "member1", due_at=due)
    saved(later)

    shown = text(root, f"/queue/order?verb={EXPEDITE}&item=default/web-deployment.member1")
    path = "/apis/failover.lifeboat.io/v1alpha1/namespaces/default/evictions/web-deployment.member1/expedite?dryRun=All"
    answer = root.post(path, {"reason": "x"}, content_type="application/json")

    assert f"before all others that are due then, but not before it is due: {due:%Y-%m-%d %H:%M:%S} UTC" in shown
    assert f"but not before it is due: {due:%Y-%m-%dT%H:%M:%SZ}" in answer["Warning"]
    assert "Neither the rate nor their due time changes." in shown


def test_a_form_of_a_browser_needs_the_token_of_its_session(root: Client) -> None:
    in_queue("web")
    browser = Client(enforce_csrf_checks=True)
    browser.cookies = root.cookies
    shown = browser.get(f"/queue/order?verb={HOLD}&item=shop/web.member1", HTTP_ACCEPT=HTML).content.decode()
    token = re.search(r'name="csrfmiddlewaretoken" value="(\w+)"', shown)
    assert token is not None
    sent = {"verb": HOLD, "item": "shop/web.member1", "reason": "we look", "concerned": "1"}
    form = "application/x-www-form-urlencoded"

    assert browser.post("/queue/order", urlencode(sent), content_type=form).status_code == 403
    assert orders("web") == []
    done = browser.post("/queue/order", urlencode({**sent, "csrfmiddlewaretoken": token.group(1)}), content_type=form)
    assert (done.status_code, orders("web")) == (303, [HOLD])


@pytest.mark.parametrize("chosen", [{"item": "shop/web.member1"}, {"everything": "yes"}])
def test_an_order_leads_back_to_the_list_that_it_was_chosen_from(root: Client, chosen: dict[str, str]) -> None:
    in_queue("web")
    shown = root.get("/queue/order", {**chosen, **FROM_LIST}, HTTP_ACCEPT=HTML).content.decode()
    hidden = dict(
        re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', shown.rpartition("<h2>Confirm")[2])
    )

    done = root.post("/queue/order", {**hidden, "reason": "we look"}, HTTP_ACCEPT=HTML)

    assert '<a class="button" href="/queue?cluster=member1&amp;namespace=shop">Cancel</a>' in shown
    assert (done.status_code, done["Location"]) == (303, "/queue?cluster=member1&namespace=shop")


FROM_LIST = {"verb": HOLD, "cluster": "member1", "namespace": "shop", "state": "Waiting", "reason_of": ""}


def test_an_order_about_all_that_a_filter_finds_needs_the_typed_word(root: Client) -> None:
    in_queue(*(f"web{number}" for number in range(12)))
    sent = {"verb": HOLD, "everything": "yes", "cluster": "member1", "reason": "we look", "concerned": "12"}

    refused = root.post("/queue/order", sent)
    assert refused.status_code == 422
    assert "type hold to confirm" in plain(refused.content.decode())
    assert orders("web3") == []

    assert root.post("/queue/order", {**sent, "typed": "hold"}).status_code == 303
    assert {tuple(orders(f"web{number}")) for number in range(12)} == {(HOLD,)}


def test_what_has_left_already_is_said_before_anything_is_ordered(root: Client) -> None:
    in_queue("web", state=EVICTED)

    shown = text(root, f"/queue/order?verb={HOLD}&item=shop/web.member1&item=shop/none.member1")

    assert "has already been evicted from cluster member1" in shown
    assert "is no longer in the eviction queue" in shown
    assert "none of the chosen evictions waits" in shown


@pytest.mark.parametrize(
    ("query", "status", "said"),
    [
        (f"verb={HOLD}", 200, "no eviction is chosen"),
        (f"verb={HOLD}&item=web", 400, "write namespace/binding.cluster"),
        ("verb=Drop&item=shop/web.member1", 200, "not one of the available choices"),
        (f"verb={HOLD}&item=" + ",".join(f"shop/w{n}.member1" for n in range(501)), 400, "more than 500"),
    ],
)
def test_an_order_that_cannot_be_read_says_what_is_wrong(root: Client, query: str, status: int, said: str) -> None:
    assert said in text(root, f"/queue/order?{query}", status=status)


def test_the_rates_show_the_new_end_of_the_queue_and_are_set_in_one_write(root: Client) -> None:
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    saved(*(replace(eviction(f"web{number}", "member1")) for number in range(20)))
    stored(objects.cluster("member2"), objects.cluster("member3"))

    shown = text(root, "/queue/rates?rate=10&secondary=0.2")
    assert "20 evictions wait. At 10/s" in shown
    assert "in 2 s; at 0.5/s" in shown or "in 1 s; at 0.5/s" in shown
    assert '"spec":{"resourceEvictionRate":10.0,"secondaryResourceEvictionRate":0.2}}' in shown
    before = ChangeLog.objects.count()

    sent = {"rate": "10", "secondary": "0.2", "concerned": "20", "reason": "night", "typed": "rates"}
    assert root.post("/queue/rates", sent).status_code == 303

    assert ChangeLog.objects.count() == before + 1
    rates = {"resourceEvictionRate": 10.0, "secondaryResourceEvictionRate": 0.2}
    assert {name: found(REF).spec[name] for name in rates} == rates
    root.post("/queue/rates", {**sent, "rate": "2"})
    assert found(REF).spec["resourceEvictionRate"] == 2.0
    logged = ChangeLog.objects.latest("version")
    assert (logged.actor, logged.reason) == ("root", "EvictionRates: night")


def test_the_gate_says_what_it_changes_and_leaves_the_other_settings_as_they_are(root: Client) -> None:
    saved(*(replace(eviction(f"web{number}", "member1")) for number in range(20)))
    root.post("/queue/rates", {"rate": "10", "secondary": "0.2", "reason": "night", "typed": "rates"})

    shown = text(root, "/queue/gate/on")
    assert "Switch failover on" in shown
    assert "featureGates.Failover from default to true" in shown
    assert '"spec":{"featureGates":{"Failover":true}}}' in shown
    assert "Switch failover on" in text(root, "/queue")
    assert root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"}).status_code == 303

    assert found(REF).spec == {
        "resourceEvictionRate": 10.0,
        "secondaryResourceEvictionRate": 0.2,
        "featureGates": {"Failover": True},
    }
    logged = ChangeLog.objects.latest("version")
    assert (logged.actor, logged.reason) == ("root", "FeatureGate: ready")
    assert "Switch failover off" in text(root, "/queue")
    assert "nothing has happened yet Moves nothing. Confirm" in text(root, "/queue/gate/on")  # it is on already
    assert root.post("/queue/gate/off", {"reason": "x", "typed": "failover"}).status_code == 303
    assert found(REF).spec["featureGates"] == {"Failover": False}
    text(root, "/queue/gate/maybe", status=404)


def test_rates_that_break_a_rule_are_refused_at_their_field(root: Client) -> None:
    shown = text(root, "/queue/rates?rate=1&secondary=2")

    assert "2 is more than resourceEvictionRate, 1; write at most 1" in shown
    assert "What it would do" not in shown


def test_a_clerk_sees_the_queue_and_neither_orders_nor_sets_rates(clerk: Client) -> None:
    in_queue("web")

    body = clerk.get("/queue", HTTP_ACCEPT=HTML).content.decode()

    assert "web" in body
    assert 'name="verb"' not in body
    assert "Change the rates" not in body
    for path in (f"/queue/order?verb={HOLD}&item=shop/web.member1", "/queue/rates"):
        assert clerk.get(path, HTTP_ACCEPT=HTML).status_code == 403
        assert clerk.post(path, {"reason": "x"}).status_code == 403
    assert orders("web") == []


def test_a_text_of_a_user_or_a_member_is_no_html_on_the_page(root: Client) -> None:
    in_queue("web")
    harm = '<script>alert("x")</script>'
    saved(replace(eviction("web", "member1"), state=HELD, reason="NoRefuge", message=harm))

    body = root.get(f"/queue?namespace={harm}&state=All", HTTP_ACCEPT=HTML).content.decode()
    listed = root.get("/queue", HTTP_ACCEPT=HTML).content.decode()

    assert harm not in body + listed
    assert "&lt;script&gt;alert(&quot;x&quot;)" in listed


def test_a_page_beyond_the_end_of_the_queue_shows_its_last_page(root: Client) -> None:
    in_queue(*(f"b{number:03}" for number in range(50)))

    shown = text(root, "/queue?offset=120")
    assert "41 to 50 of 50" in shown
    assert "The queue is empty" not in shown
    assert "41 to 50 of 50" in text(root, "/queue?offset=9999999&cluster=member1")
    assert "No item matches this filter" in text(root, "/queue?offset=120&cluster=member9")


def test_the_end_of_the_queue_is_not_said_of_evictions_that_are_held_or_recover(root: Client) -> None:
    """Situation, the API and `lifeboat queue` count them apart from those that are queued."""
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    saved(*(eviction(f"queued{number}", "member1") for number in range(2)))
    saved(replace(eviction("held", "member1"), state=HELD, reason="OnHold"))
    saved(replace(eviction("back", "member1"), state=RECOVERING))
    stored(objects.cluster("member2"), objects.cluster("member3"))

    shown, body = text(root, "/queue"), root.get("/queue", HTTP_ACCEPT=HTML).content.decode()
    situation = root.get("/", HTTP_ACCEPT=HTML).content.decode()

    assert "4 evictions waiting, 2 of them queued, the last of these about" in shown
    assert "2 queued 1 recovering 1 held" in shown
    bar = 'aria-label="{}: queued 2, recovering 1, held 1"'
    assert bar.format("evictions") in body
    assert "queued 2, recovering 1, held 1" in situation
    rates = text(root, "/queue/rates?rate=1&secondary=1")
    assert "4 evictions wait; the estimate is that of the 2 queued ones. At 1/s the last takes place at" in rates


def test_a_queue_that_ends_on_another_day_says_on_which(root: Client) -> None:
    """At 0.5 evictions a second, 100,000 of them take more than two days: "10:45 UTC" would be read as today."""
    due = store().now() + timedelta(days=3)
    day = f"{due:%Y-%m-%d}"
    saved(eviction("late", "member1", due_at=due))
    stored(objects.cluster("member2"), objects.cluster("member3"))
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})

    shown, situation = text(root, "/queue"), text(root, "/")

    head, row = shown.split(" late ", 1)
    assert re.search(rf"1 eviction waiting, the last about {day} [\d:]+ UTC , in 2 d 23 h", head)
    assert len(re.findall(rf"{day} [\d:]+ UTC", row)) == 2  # due, and the estimate
    assert re.search(rf"{day} [\d:]+ UTC last eviction", situation)
    assert f"at {day}" not in shown  # the time of the page itself is of today


def test_an_eviction_that_is_held_and_checked_again_is_held_on_every_page(root: Client) -> None:
    """After a change of capacity all held evictions are checked again, at the eviction rate: that may take an hour."""
    judged = (Judgement("gone", "NoExecute", START, START),)
    again = {"judged": judged, "reason": "NoRefuge", "message": "no cluster has room"}
    saved(*(eviction(f"again{number}", "member1", **again) for number in range(3)))
    saved(eviction("fresh", "member1", judged=judged))
    stored(objects.cluster("member2"), objects.cluster("member3"))

    situation, shown, held = text(root, "/"), text(root, "/queue"), text(root, "/queue?state=Held")

    assert "1 queued 3 held" in situation
    assert "1 queued 0 recovering 3 held" in shown
    assert "1 to 3 of 3" in held  # where the button "Held evictions" of Situation leads
    assert held.count("NoRefuge: no cluster has room") == 3
    assert "! Held" in held
    assert "fresh" not in held
    assert "1 to 1 of 1" in text(root, "/queue?state=Queued")


def test_while_the_gate_is_off_nothing_says_when_the_queue_ends(root: Client) -> None:
    """Evictions that wait are dropped then, in the next turns of their controller: none of them takes place."""
    stored(*(objects.cluster(f"member{number}") for number in (1, 2, 3)))
    in_queue("web")
    root.post("/queue/gate/off", {"reason": "test", "typed": "failover"})

    shown = text(root, "/queue")
    item = "/apis/failover.lifeboat.io/v1alpha1/namespaces/shop/evictions"
    status = root.get(item, HTTP_ACCEPT="application/json").json()["items"][0]["status"]
    rates = text(root, "/queue/rates?rate=5&secondary=1")

    assert "1 eviction waiting Queue" in shown
    assert "0/s rate in force, Normal" in shown
    assert "The feature gate Failover is off, so nothing is evicted." in shown
    assert "stopped" in shown.split("GateOff")[1]
    assert (status["reason"], status["estimate"], status.get("queueEndsAt")) == ("GateOff", "stopped", None)
    assert "At 0/s the last takes place at no time" in rates


def test_the_dry_run_of_an_order_names_few_of_the_evictions_that_cannot_get_it(root: Client) -> None:
    """In an outage of thousands nearly all that a filter finds may have left."""
    stored(binding("web", "member1"))
    saved(eviction("web", "member1"))
    saved(*(eviction(f"gone{number:03}", "member1") for number in range(60)))
    left = {"state": EVICTED, "due_at": None, "ended_at": START}
    saved(*(eviction(f"left{number:03}", "member1", **left) for number in range(60)))

    body = root.get("/queue/order?verb=Hold&everything=yes&state=All", HTTP_ACCEPT=HTML).content.decode()

    shown = plain(body)
    assert body.count("<li>") < 60
    assert "shop/gone000.member1 is no longer in the eviction queue" in shown
    assert "more are no longer in the eviction queue" in shown
    assert "more have already been evicted" in shown


def test_the_page_of_the_rates_orders_no_queue_to_say_when_it_ends(root: Client) -> None:
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    stored(*(objects.cluster(f"member{number}") for number in (1, 2, 3)))
    saved(*(eviction(f"web{number}", "member1", due_at=store().now()) for number in range(40)))

    with statements() as asked:
        shown = text(root, "/queue/rates?rate=5&secondary=1")

    assert "At 5/s the last takes place at" in shown
    assert "in 8 s; at 0.5/s" in shown or "in 7 s; at 0.5/s" in shown
    assert not any("row_number()" in one for one in asked)


def test_a_large_queue_is_sorted_once_in_five_seconds_for_all_who_look_at_it(
    root: Client, clerk: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each page was renewed with each change of the queue, and sorted it again: one second of PostgreSQL at 100,000."""
    moment = [0.0]
    kept = KeptQueues(clock=lambda: moment[0], seconds=5.0, renewed=False)
    monkeypatch.setattr(queue, "RECENT", kept)
    monkeypatch.setattr(queue, "LARGE", 50)
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})
    stored(*(objects.cluster(f"member{number}") for number in (1, 2, 3)))
    rows = [eviction(f"web{number:03}", "member1") for number in range(100)]
    saved(*rows)

    def look(client: Client, path: str = "/queue") -> tuple[int, str]:
        with statements() as asked:
            shown = text(client, path)
        return sum("row_number()" in one for one in asked), shown

    sorted_first, first = look(root)
    saved(replace(rows[0], state=EVICTED, due_at=None, ended_at=START), replace(rows[1], state=HELD, reason="OnHold"))
    moment[0] = 4.0
    sorted_again, second = look(clerk)
    sorted_next, page = look(root, "/queue?offset=40")
    moment[0] = 6.0
    sorted_late, third = look(root)

    assert (sorted_first, sorted_again, sorted_next, sorted_late) == (1, 0, 0, 1)
    assert "100 evictions waiting" in first
    assert "1 to 40 of 100" in first
    assert "99 evictions waiting" in second  # figures and states are those of now
    assert "web000" not in second
    assert "Held OnHold" in second.split("web001")[1].split("web002")[0]
    assert "41 to 80 of 100" in page
    assert "1 to 40 of 99" in third
    assert "web000" not in third


def test_to_switch_failover_off_says_how_many_evictions_are_dropped(root: Client) -> None:
    saved(*(eviction(f"web{number}", "member1") for number in range(3)), eviction("held", state=HELD, reason="OnHold"))
    before = text(root, "/queue/gate/on")
    root.post("/queue/gate/on", {"reason": "ready", "typed": "failover"})

    shown = text(root, "/queue/gate/off")

    assert "4 evictions that wait are dropped, and the copies stay where they are. Confirm" in shown
    assert "dropped, and the copies" not in before
