"""The admin shows everything and writes the way kubectl does."""

from __future__ import annotations

import re
from urllib.parse import urljoin

import yaml
from django.apps import apps
from django.contrib import admin
from django.contrib.admin.utils import quote
from django.test import Client
from django.urls import reverse

from apps.objects.edits import MANAGER
from apps.objects.models import ChangeLog
from apps.objects.store import store
from controlplane.apimachinery.meta import Ref
from controlplane.controllers.scheduler import Scheduler
from controlplane.engine.run import World, run_batch
from controlplane.kind import KINDS
from controlplane.kinds import CLUSTER, RESOURCE_BINDING, WORK
from controlplane.kinds.policy import ClusterAffinity, Placement
from controlplane.settings import Settings
from tests.apps.pages import change, confirmed, found, list_of, of_kind, one_row_of_each, page_of, save, stored, text_in
from tests.builders.bare import binding, cluster, template
from tests.builders.objects import eviction, work
from tests.builders.templates import namespace


def test_every_kind_is_listed_and_shown(root: Client) -> None:
    made = {kind.key: stored(of_kind(kind.key, "one"))[0] for kind in KINDS}

    listed = {key: root.get(list_of(key), {"kind": key}).content.decode() for key in made}
    shown = {key: text_in(root, page_of(one)) for key, one in made.items()}

    assert [key for key, one in made.items() if page_of(one) not in listed[key]] == []
    assert [key for key in made if "name: one" not in shown[key]] == []


def test_every_link_on_an_objects_page_leads_somewhere(root: Client) -> None:
    everywhere = _links(root, reverse("admin:index"))
    one_of_each_table = {kind.table: kind.key for kind in KINDS}.values()
    pages = [page_of(stored(of_kind(key, "one"))[0]) for key in one_of_each_table]

    links = {link for page in pages for link in _links(root, page)} - everywhere

    assert {page.replace("/change/", "/delete/") for page in pages} <= links
    assert {link: status for link in links if (status := root.get(link).status_code) >= 400} == {}


def _links(client: Client, page: str) -> set[str]:
    """Return where the links of a page of the admin lead within it."""
    found = {urljoin(page, link) for link in re.findall(r'<a [^>]*?href="([^"#]+)"', client.get(page).content.decode())}
    return {link for link in found if link.startswith("/admin/")}


def test_every_table_has_a_page_for_the_staff(clerk: Client) -> None:
    one_row_of_each()
    ours = [model for model in admin.site._registry if model.__module__.startswith("apps.")]
    pages = [f"admin:{model._meta.app_label}_{model._meta.model_name}_changelist" for model in ours]

    answers = {page: clerk.get(reverse(page)) for page in pages}

    refused = {page for page, answer in answers.items() if answer.status_code == 403}
    # A Work may contain a Secret; audit events are for readers of /audit.
    assert refused == {"admin:resources_work_changelist", "admin:objects_auditevent_changelist"}
    assert {answer.status_code for page, answer in answers.items() if page not in refused} == {200}
    assert len(ours) >= 18


def test_no_table_is_forgotten(root: Client) -> None:
    ours = [model for model in apps.get_models() if model.__module__.startswith("apps.")]

    forgotten = [model.__name__ for model in ours if model not in admin.site._registry]

    # The counter is one row; tokens are handed out by manage.py; sessions are listed by the API (`credentials`).
    assert set(forgotten) <= {"Counter", "Token", "LoginSession"}


def test_row_native_values_are_shown_and_never_edited(root: Client) -> None:
    one_row_of_each()
    shown = root.get(reverse("admin:failover_eviction_change", args=[quote(eviction("web", "member1").key)]))

    assert shown.status_code == 200
    assert 'name="_save"' not in shown.content.decode()
    assert root.get(reverse("admin:failover_eviction_add")).status_code == 403


def test_objects_are_found_by_name_namespace_and_label(root: Client) -> None:
    stored(template("web-1"), template("web-2"), template("db", labels={"app": "db"}))
    expected = {
        "web": {"web-1", "web-2"},
        "shop/web-1": {"web-1"},
        "app=db": {"db"},
        "app=db web": set(),
        "other": set(),
    }

    pages = {asked: root.get(list_of("ConfigMap"), {"q": asked}).content.decode() for asked in expected}

    names = ("web-1", "web-2", "db")
    assert {asked: {one for one in names if f">{one}</a>" in said} for asked, said in pages.items()} == expected


def test_lists_are_filtered_by_what_the_kinds_declare(root: Client) -> None:
    stored(cluster("healthy"), cluster("failed", "NoExecute"), binding("web", "failed"), work("w", "failed"))

    tainted = root.get(list_of(CLUSTER), {"taint": "NoExecute"}).content.decode()
    placed = root.get(list_of(RESOURCE_BINDING), {"cluster": "healthy"}).content.decode()
    works = root.get(list_of(WORK), {"cluster": "failed"}).content.decode()

    assert ">failed</a>" in tainted
    assert ">healthy</a>" not in tainted
    assert ">web</a>" not in placed
    assert ">w</a>" in works


def test_the_lists_of_clusters_and_bindings_say_what_matters(root: Client) -> None:
    stored(cluster("failed", "NoExecute"), binding("web", "failed", "other"))

    assert "failed:NoExecute" in root.get(list_of(CLUSTER)).content.decode()
    assert "failed:2, other:2" in root.get(list_of(RESOURCE_BINDING)).content.decode()


def test_a_wrong_taint_effect_is_refused_in_kubectls_words_at_the_field(root: Client) -> None:
    url = page_of(stored(cluster("member1", "NoExecute"))[0])
    text = text_in(root, url).replace("effect: NoExecute", "effect: NoExec")

    answer = save(root, url, text)

    said = answer.content.decode()
    assert "spec.taints[0].effect: " in said
    assert "NoExec&quot;" in said
    assert "NoSchedule" in said
    assert "(line " in said
    assert "effect: NoExec\n" in said.replace("\r", ""), "the text stays as it was typed"
    assert found(Ref(CLUSTER, "", "member1")).spec.taints[0].effect == "NoExecute"


def test_an_edit_is_written_like_kubectls_under_the_users_name(root: Client) -> None:
    url = page_of(stored(cluster("member1", "NoExecute"))[0])

    save(root, url, text_in(root, url).replace("effect: NoExecute", "effect: NoSchedule"))

    now = found(Ref(CLUSTER, "", "member1"))
    assert now.spec.taints[0].effect == "NoSchedule"
    assert now.metadata.generation == 2
    assert MANAGER in [entry["manager"] for entry in now.metadata.managed_fields]
    line = ChangeLog.objects.get(version=int(now.metadata.resource_version))
    assert (line.actor, line.reason, line.type) == ("root", "Admin: a test", "MODIFIED")


def test_saving_what_was_not_changed_keeps_the_version(root: Client) -> None:
    made = stored(template("settings"))[0]

    save(root, page_of(made), text_in(root, page_of(made)))
    again = found(made.ref).metadata.resource_version
    save(root, page_of(made), text_in(root, page_of(made)))

    assert found(made.ref).metadata.resource_version == again


def test_a_conflict_says_so_and_keeps_the_text(root: Client) -> None:
    made = stored(template("settings", {"data": {"key": "old"}}))[0]
    url = page_of(made)
    text = text_in(root, url).replace("old", "mine")
    change(made, made.with_content({"data": {"key": "theirs"}}))

    answer = save(root, url, text, basis=made.metadata.resource_version)

    said = answer.content.decode()
    assert "the object has been modified" in said
    assert "key: mine" in said
    assert "key: theirs" in said
    assert found(made.ref).content["data"] == {"key": "theirs"}


def test_after_a_conflict_saving_again_is_deliberate_and_works(root: Client) -> None:
    made = stored(template("settings", {"data": {"key": "old"}}))[0]
    text = text_in(root, page_of(made)).replace("old", "mine")
    change(made, made.with_content({"data": {"key": "theirs"}}))
    refused = save(root, page_of(made), text, basis=made.metadata.resource_version)

    save(root, page_of(made), text, basis=str(refused.context["form"]["basis"].value()))

    assert found(made.ref).content["data"] == {"key": "mine"}


def test_a_report_that_came_in_meanwhile_is_no_conflict(root: Client) -> None:
    made = stored(cluster("member1", "NoExecute"))[0]
    url = page_of(made)
    text = text_in(root, url).replace("effect: NoExecute", "effect: NoSchedule")
    change(made, made.with_status(kubernetes_version="v1.31.0"), by="cluster_status")

    save(root, url, text, basis=made.metadata.resource_version)

    now = found(made.ref)
    assert now.spec.taints[0].effect == "NoSchedule"
    assert now.status.kubernetes_version == "v1.31.0"


def test_objects_are_added_as_text(root: Client) -> None:
    stored(namespace("shop"))
    url = reverse("admin:objects_object_add")
    text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings, namespace: shop}\ndata: {key: value}\n"

    answer = root.post(url, {"document": text, "_save": "1"}, follow=True)

    assert "ConfigMap:shop/settings created" in answer.content.decode()
    made = found(Ref("ConfigMap", "shop", "settings"))
    assert made.content["data"] == {"key": "value"}
    assert made.metadata.uid


REFUSED = {
    "a: [": "the body is not YAML",
    "kind: Nothing\napiVersion: v1\nmetadata: {name: x}": "no kind &quot;Nothing&quot;",
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x}": "name the namespace in the URL or in metadata.namespace",
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, namespace: none}": "namespaces &quot;none&quot; not found",
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: x, namespace: shop}\nspek: 1": "unknown field &quot;spek&quot;",
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: UPPER, namespace: shop}": "metadata.name: ",
    "kind: ConfigMap\napiVersion: v1\nmetadata: {name: taken, namespace: shop}": "already exists",
    "kind: Work\napiVersion: work.karmada.io/v1alpha1\nmetadata: {name: x}": "and not Work",
}


def test_what_cannot_be_added_says_why(root: Client) -> None:
    stored(namespace("shop"), template("taken"))
    url = reverse("admin:objects_object_add")

    answers = {text: root.post(url, {"document": text}).content.decode() for text in REFUSED}

    assert {text: said for text, said in REFUSED.items() if said not in answers[text]} == {}


def test_what_an_object_is_called_cannot_be_edited(root: Client) -> None:
    url = page_of(stored(template("settings"))[0])

    said = save(root, url, text_in(root, url).replace("name: settings", "name: other")).content.decode()

    assert "metadata.name: " in said
    assert "field is immutable" in said


def test_deleting_goes_through_apply_and_honours_finalizers(root: Client) -> None:
    held = stored(template("held", finalizers=("example.io/keep",)))[0]
    free = stored(template("free"))[0]

    asked = root.get(page_of(held, "delete")).content.decode()
    asked_again = root.post(page_of(held, "delete"), {"reason": " ", "concerned": "0"}).content.decode()
    assert "Write the reason" in asked_again
    assert found(held.ref) == held
    waiting = confirmed(root, page_of(held, "delete")).content.decode()
    confirmed(root, page_of(free, "delete"), reason="not used")

    assert "example.io/keep" in asked
    assert "Marked for deletion: 1" in waiting
    assert found(held.ref).metadata.deletion_timestamp is not None
    assert found(free.ref) is None
    logged = ChangeLog.objects.get(name="free", type="DELETED")
    assert (logged.actor, logged.reason) == ("root", "Admin: not used")


def test_a_namespace_goes_after_what_is_in_it_and_ours_stays(root: Client) -> None:
    shop, ours = stored(namespace("shop"), namespace("default"))

    asked = confirmed(root, page_of(shop, "delete")).content.decode()
    refused = confirmed(root, page_of(ours, "delete")).content.decode()

    assert "Marked for deletion: 1" in asked
    assert found(shop.ref).status["phase"] == "Terminating"
    late = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: late, namespace: shop}\n"
    added = root.post(reverse("admin:objects_object_add"), {"document": late}).content.decode()
    assert "namespace shop is being terminated" in added
    assert found(Ref("ConfigMap", "shop", "late")) is None
    assert "may not be deleted" in refused
    assert found(ours.ref).metadata.deletion_timestamp is None


def test_a_cluster_with_bindings_on_it_is_not_deleted_on_any_page(root: Client) -> None:
    full, free, _ = stored(cluster("full"), cluster("free"), binding("web", "full"))
    chosen = [page_of(one).split("/")[-3] for one in (full, free)]
    sent = {"action": "delete_selected", "_selected_action": chosen, "index": "0"}

    alone = confirmed(root, page_of(full, "delete")).content.decode()
    together = confirmed(root, list_of(CLUSTER), sent).content.decode()

    for said in (alone, together):
        assert "bindings are still placed on it" in said
        assert "Drain" in said
    assert found(full.ref).metadata.deletion_timestamp is None
    assert found(free.ref) == free

    change(full, full.with_meta(annotations={"failover.lifeboat.io/unjoin": "delete"}))
    confirmed(root, list_of(CLUSTER), sent)
    assert found(free.ref) is None
    assert found(full.ref) is None


def test_many_are_deleted_at_once_after_asking(root: Client) -> None:
    made = stored(*(template(f"settings-{number:03}") for number in range(120)))
    chosen = [page_of(one).split("/")[-3] for one in made[:3]]
    sent = {"action": "delete_selected", "_selected_action": chosen, "select_across": "1", "index": "0"}

    asked = root.post(list_of("ConfigMap"), sent)
    done = confirmed(root, list_of("ConfigMap"), sent)

    assert "settings-000" in asked.content.decode()
    assert "and more" in asked.content.decode()
    assert "Deleted: 120." in done.content.decode()
    assert not any(found(one.ref) for one in made)


def test_a_dangerous_edit_shows_what_it_would_do_and_is_done_with_a_reason(root: Client) -> None:
    made = stored(cluster("member1"))[0]
    url = page_of(made)
    tainted = {**yaml.safe_load(text_in(root, url)), "spec": {"taints": [{"key": "gone", "effect": "NoExecute"}]}}
    sent = {"document": yaml.safe_dump(tainted), "basis": made.metadata.resource_version, "_save": "1"}

    asked = root.post(url, sent).content.decode()

    assert "moves nothing; the feature gate Failover is off, so no taint evicts copies" in asked
    assert "Save cluster.karmada.io/Cluster:member1?" in asked
    assert found(made.ref) == made
    confirmed(root, url, sent, reason="maintenance")
    assert [one.key for one in found(made.ref).spec.taints] == ["gone"]
    assert ChangeLog.objects.filter(name="member1").latest("version").reason == "Admin: maintenance"


def test_an_act_on_many_workloads_needs_the_typed_word(root: Client) -> None:
    made = stored(cluster("member1"), *(binding(f"web-{number:02}", "member1") for number in range(12)))[1:]
    sent = {"action": "delete_selected", "_selected_action": [page_of(one).split("/")[-3] for one in made]}

    untyped = root.post(list_of(RESOURCE_BINDING), {**sent, "reason": "old", "concerned": "12"}).content.decode()

    assert "removes the copies of 12" in untyped
    assert "12 workloads are concerned, more than 10: type delete to confirm." in untyped
    assert found(made[0].ref) == made[0]
    assert "Deleted: 12." in confirmed(root, list_of(RESOURCE_BINDING), sent).content.decode()


def test_clusters_are_cordoned_and_uncordoned(root: Client) -> None:
    made = stored(cluster("member1"))[0]

    asked = root.post(page_of(made, "cordon")).content.decode()
    assert "moves nothing, 0 bindings stay on cluster member1, which takes no new copies" in asked
    assert "kubectl lifeboat cordon member1" in asked
    assert found(made.ref).spec.taints == ()
    confirmed(root, page_of(made, "cordon"))
    taints = found(made.ref).spec.taints
    root.post(list_of(CLUSTER), {"action": "uncordon", "_selected_action": page_of(made).split("/")[-3], "index": "0"})

    assert [(one.key, one.effect) for one in taints] == [("cluster.karmada.io/unschedulable", "NoSchedule")]
    assert found(made.ref).spec.taints == ()


def test_the_page_of_a_cluster_offers_the_acts_that_its_reader_may_do_and_no_others(
    root: Client, clerk: Client
) -> None:
    url = page_of(stored(cluster("member1"))[0])
    acts = [*(f"/clusters/member1/{act}" for act in ("fence", "drain", "failback", "taint", "unjoin")), "/cordon/"]

    pages = [client.get(url).content.decode() for client in (root, clerk)]

    assert [[act for act in acts if f'{act}"' in page] for page in pages] == [acts, []]
    assert "/uncordon/" not in pages[0]  # it is not cordoned


def test_the_page_of_a_binding_shows_its_history_with_its_works(root: Client) -> None:
    made = stored(binding("web", "member1"))[0]
    stored(work("web-1", "member1", of=made))
    change(made, made.with_spec(replicas=5), by="scheduler")

    said = root.get(page_of(made)).content.decode()

    assert "scheduler" in said
    assert "spec.replicas" in said
    assert "created Work karmada-es-member1/web-1" in said


def test_the_page_of_a_binding_says_why_it_is_there(root: Client) -> None:
    waiting = binding("web")
    placement = Placement(cluster_affinity=ClusterAffinity(cluster_names=("nowhere",)))
    made = stored(cluster("member1"), waiting.with_spec(placement=placement))[1]
    run_batch(Scheduler(), store(), Settings(), world=World())

    said = root.get(page_of(made)).content.decode()

    assert "Why it is placed there" in said
    assert "shop/web: " in said
    assert "ScheduleBindingFailed" in said


def test_a_change_is_shown_as_what_it_changed(root: Client) -> None:
    made = stored(template("settings", {"data": {"key": "old"}}))[0]
    now = change(made, made.with_content({"data": {"key": "new"}}))

    said = root.get(reverse("admin:objects_changelog_change", args=[now.metadata.resource_version])).content.decode()

    assert "-   key: old" in said
    assert "+   key: new" in said


def test_the_staff_reads_and_does_not_write(clerk: Client) -> None:
    made = stored(cluster("member1"))[0]

    page = clerk.get(page_of(made))

    assert page.status_code == 200
    assert "<textarea" not in page.content.decode()
    assert clerk.post(page_of(made), {"document": "x", "basis": "1"}).status_code == 403
    assert clerk.post(page_of(made, "delete")).status_code == 403
    assert clerk.post(page_of(made, "cordon")).status_code == 403
    assert clerk.get(reverse("admin:objects_object_add")).status_code == 403
    assert found(made.ref).spec.taints == ()


def test_no_page_is_shown_without_a_login(client: Client, transactional_db: None) -> None:
    assert client.get(list_of(CLUSTER)).status_code == 302
