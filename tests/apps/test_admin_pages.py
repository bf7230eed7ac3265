"""Pages of the admin: what they say first, and that internal tables are out of the way."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client
from django.urls import reverse
from msgspec.structs import replace

from apps.console.admin_settings import lines_of
from apps.failover.admin import workload_name
from apps.objects.conditions import conditions_of
from apps.objects.configuration import configuration
from controlplane.apimachinery.meta import Condition, ObjectMeta
from controlplane.insight.failover_sentence import record_sentence
from controlplane.kinds import CLUSTER, RESOURCE_BINDING
from controlplane.kinds.binding import ObjectReference, TargetCluster
from controlplane.kinds.configuration import FailoverConfiguration
from controlplane.kinds.failover_record import Durations, FailoverRecord, FailoverRecordStatus
from controlplane.settings import Settings
from tests.apps.pages import change, in_queue, list_of, lost_cluster, page_of, stored
from tests.apps.statements import statements
from tests.apps.test_records import evicted, tainted
from tests.builders.bare import START, binding, cluster


def text(client: Client, url: str, **query: str) -> str:
    got = client.get(url, query, HTTP_ACCEPT="text/html")
    assert got.status_code == 200
    return unescape(got.content.decode())


def columns(page: str) -> list[str]:
    return [name.strip().lower() for name in re.findall(r'<div class="text">(?:<a [^>]*>|<span>)([^<]+)<', page)]


def test_the_front_page_has_few_headings_and_one_for_internal_tables(root: Client) -> None:
    page = text(root, reverse("admin:index"))

    headings = re.findall(r'class="section"[^>]*>\s*([^<]+?)\s*</a>', page)
    assert headings[-5:] == ["Fleet", "Workloads and policies", "Failover", "Access", "Internals"]
    internal = page.rpartition("Internals")[2]
    assert all(name in internal for name in ("Due rows", "Leases", "Change log", "Placement notes", "Tallies"))
    assert "Evictions" not in internal
    assert reverse("admin:settings") in page
    assert reverse("admin:failovers") in page
    assert 'rel="icon"' in page


def test_lists_say_the_workload_first_and_reasons_before_times(root: Client) -> None:
    lost_cluster()
    in_queue("web-deployment")

    queue, bindings = text(root, reverse("admin:failover_eviction_changelist")), text(root, list_of(RESOURCE_BINDING))

    shown = [name for name in columns(queue) if name != "action"]
    assert shown[:5] == ["workload", "cluster", "state", "reason", "message"]
    assert shown.index("message") < shown.index("due at") < shown.index("binding")
    assert columns(bindings)[-10:][0] in ("workload", "targets")
    assert "Deployment shop/web" in queue
    assert "2026-01-01 00:00:00 UTC" in queue


@pytest.mark.parametrize(
    ("kind", "ref", "name"),
    [
        ("apps/v1/Deployment", "work.karmada.io/ResourceBinding:shop/web-deployment", "Deployment shop/web"),
        ("", "work.karmada.io/ResourceBinding:shop/web-api-deployment", "Deployment shop/web-api"),
        ("batch/v1/Job", "work.karmada.io/ResourceBinding:shop/other", "Job shop/other"),
        (
            "rbac.authorization.k8s.io/v1/ClusterRole",
            "work.karmada.io/ClusterResourceBinding:reader-clusterrole",
            "ClusterRole reader",
        ),
    ],
)
def test_a_workload_is_named_from_the_reference_of_its_binding(kind: str, ref: str, name: str) -> None:
    assert workload_name(kind, ref) == name


def test_the_page_of_a_binding_begins_with_the_conditions_that_matter(root: Client) -> None:
    stuck = Condition("EvictionStuck", "True", "Unhealthy", "the new copy is not healthy", START)
    fine = Condition("FullyApplied", "True", "FullyAppliedSuccess", "all Works are applied", START)
    made = stored(binding("web", "member1").with_status(conditions=(fine, stuck)))[0]

    page = text(root, page_of(made))

    at = [page.index(part) for part in ("EvictionStuck", "FullyApplied", "resourceVersion")]
    assert at == sorted(at)
    row = page[page.index("EvictionStuck") :].partition("</tr>")[0]
    assert row.index("Unhealthy") < row.index("the new copy is not healthy") < row.index("2026-01-01T00:00:00Z")


def test_conditions_that_need_attention_come_first() -> None:
    found = conditions_of(
        {
            "status": {
                "conditions": [
                    {"type": "Established", "status": "True"},
                    {"type": "Ready", "status": "False", "reason": "ClusterNotReady"},
                    {"type": "Flapping", "status": "False"},
                    "nonsense",
                ]
            }
        }
    )

    assert [(one.type, one.attention) for one in found] == [
        ("Ready", True),
        ("Established", False),
        ("Flapping", False),
    ]
    assert conditions_of({"status": {"conditions": "nonsense"}}) == []


def test_the_timeline_says_in_a_sentence_what_happened(root: Client) -> None:
    made = stored(cluster("member1"))[0]
    change(made, made.with_spec(region="us"), by="jane")

    page = text(root, page_of(made))

    assert "jane changed spec.region of Cluster member1" in page


def test_a_filter_for_many_clusters_is_typed_and_keeps_the_other_filters(root: Client) -> None:
    stored(*(cluster(f"member{number}") for number in range(3)))
    few = text(root, list_of(RESOURCE_BINDING))
    stored(*(cluster(f"more{number}") for number in range(100)))

    many = text(root, list_of(RESOURCE_BINDING), scheduled="True")
    chosen = text(root, list_of(RESOURCE_BINDING), cluster="more7")

    assert '?cluster=member1"' in few
    assert '?cluster=member1"' not in many
    form = many[many.index('class="typed-filter"') :].partition("</form>")[0]
    assert 'name="scheduled" value="True"' in form
    assert form.count("<option") == 103
    assert 'name="cluster" list="values-of-cluster" value="more7"' in chosen


RECORD = FailoverRecordStatus(
    resource=ObjectReference("apps/v1", "Deployment", "web", "shop"),
    state="Finished",
    reason="TaintUntolerated",
    left=(TargetCluster("member1", 2),),
    after=(TargetCluster("member2", 2),),
    durations=Durations(total=12.4),
)
SENTENCES = {
    "Deployment shop/web left member1 because it does not tolerate a taint and runs on member2 (2); "
    "the old copies were released within 12 s.": RECORD,
    "Deployment shop/web leaves member1 for a Drain and goes to member2 (2); "
    "its old copies are kept meanwhile.": replace(RECORD, state="Running", reason="Drain"),
}


@pytest.mark.parametrize("sentence", SENTENCES)
def test_a_failover_is_a_sentence(sentence: str) -> None:
    record = FailoverRecord(
        "failover.lifeboat.io/v1alpha1", "FailoverRecord", ObjectMeta(name="web.7"), SENTENCES[sentence]
    )

    assert record_sentence(record) == sentence


def test_failover_records_are_a_page_of_sentences_that_costs_the_same_for_any_number(root: Client) -> None:
    page = reverse("admin:failovers")
    assert "The change log has no failover." in text(root, page)
    lost, *refs = (one.ref for one in stored(cluster("member1"), *(binding(f"web{n}", "member1") for n in range(6))))
    tainted(lost)
    evicted(refs[0])
    with statements() as few:
        assert text(root, page).count("Deployment shop/web") == 1
    for ref in refs[1:]:
        evicted(ref)
    with statements() as many:
        assert text(root, page).count("Deployment shop/web") == 6

    assert abs(len(many) - len(few)) <= 3
    assert "The change log has no failover that matches." in text(root, page, cluster="other")
    assert root.get(page, {"before": "x"}).status_code == 404


def test_the_settings_in_force_say_where_each_comes_from(root: Client) -> None:
    spec = {"resourceEvictionRate": 2.0, "eviction": {"ageingSeconds": 60.0}}
    stored(
        FailoverConfiguration(
            "failover.lifeboat.io/v1alpha1",
            "FailoverConfiguration",
            ObjectMeta(name="default", uid="u", generation=1),
            spec,
        )
    )

    configuration.cache_clear()  # it knows this version of an earlier test's database
    page = text(root, reverse("admin:settings"))

    row = page[page.index(">resource_eviction_rate<") :].partition("</tr>")[0]
    assert re.findall(r"<td[^>]*>([^<]*)</td>", row) == [
        "2",
        "FailoverConfiguration/default",
        "0.5",
        "spec.resourceEvictionRate of FailoverConfiguration/default",
    ]
    assert "spec.eviction.ageingSeconds" in page


def test_a_setting_of_the_environment_names_its_variable() -> None:
    found = {line.name: line for line in lines_of(Settings(), {}, {"LIFEBOAT_GRACEFUL_EVICTION_TIMEOUT": "60"})}

    assert found["graceful_eviction_timeout"].source == "environment LIFEBOAT_GRACEFUL_EVICTION_TIMEOUT"
    assert found["resource_eviction_rate"].source == "default"
    assert found["controllers"].change == "LIFEBOAT_CONTROLLERS, and a restart"


def test_a_page_that_does_not_exist_is_a_page(root: Client) -> None:
    got = root.get("/admin/clusters/cluster/999/change/", HTTP_ACCEPT="text/html")
    plain = root.get("/admin/clusters/cluster/999/change/", HTTP_ACCEPT="application/json")

    assert (got.status_code, got["Content-Type"].partition(";")[0]) == (404, "text/html")
    assert "no cluster has the id 999" in got.content.decode()
    assert plain.json()["reason"] == "NotFound"


def test_no_plural_is_a_word_with_two_s(root: Client) -> None:
    page = text(root, reverse("admin:index"))

    names: list[Any] = re.findall(r'<th scope="row"[^>]*>\s*<a[^>]*>([^<]+)</a>', page)
    assert names
    assert not [name for name in names if name.endswith(("ss", "ys")) and not name.endswith("days")]
    assert CLUSTER


def test_pages_of_the_admin_are_for_users_who_may_read_what_they_show(root: Client) -> None:
    staff = Client()
    staff.force_login(User.objects.create_user("guest", is_staff=True))

    for name in ("settings", "failovers"):
        assert root.get(reverse(f"admin:{name}")).status_code == 200
        assert staff.get(reverse(f"admin:{name}")).status_code == 403
    assert reverse("admin:settings") not in staff.get(reverse("admin:index")).content.decode()


@pytest.mark.parametrize("table", ["auth_user", "objects_object", "clusters_cluster"])
def test_an_action_on_a_row_with_a_malformed_key_is_a_bad_request(root: Client, table: str) -> None:
    answer = root.post(reverse(f"admin:{table}_changelist"), {"action": "delete_selected", "_selected_action": "x"})

    assert answer.status_code == 400


@pytest.mark.parametrize("table", ["auth_user", "objects_object", "objects_lease"])
def test_rows_are_not_chosen_by_a_pattern_of_the_url(root: Client, table: str) -> None:
    answer = root.get(reverse(f"admin:{table}_changelist"), {"name__regex": "{0}"})

    assert answer.status_code == 400


@pytest.mark.parametrize("send", ["get", "head", "post"])
@pytest.mark.parametrize("page", ["change", "delete"])
def test_an_empty_name_of_the_field_of_a_key_is_a_bad_request(root: Client, send: str, page: str) -> None:
    address = reverse(f"admin:api_token_{page}", args=["x"])
    answer = getattr(root, send)(f"{address}?_to_field=")
    assert answer.status_code == 400
