"""Every dangerous act on every way in: the dry run first, the reason, the typed name of a large act, then a link."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html import unescape
from typing import Any, Final, NamedTuple

import pytest
import yaml
from django.test import Client
from django.urls import resolve

from apps.api.health import HEALTH
from apps.console.guard import ActPage
from apps.console.urls import urlpatterns
from apps.objects.confirmation import THRESHOLD
from apps.objects.models import ChangeLog
from apps.objects.store import store
from apps.objects.writer import document_of
from apps.objects.yaml_text import edited, to_yaml
from controlplane.kind import KINDS
from tests.apps.guarded_acts import ACTS, REASON, Create, Delete, Edit, Guarded, Post, Write, fleet
from tests.apps.pages import found, list_of, page_of
from tests.apps.test_console_queue import plain
from tests.command.test_acts import CASES as OF_COMMANDS
from tests.command.test_acts import ELSEWHERE

FEW, MANY = 2, THRESHOLD + 1
HTML, JSON = "text/html", "application/json"


class Reply(NamedTuple):
    """What a way in answers: the text of the page, and the URL to which it leads."""

    status: int
    text: str
    location: str = ""


Given = dict[str, str]  # reason, and typed
Way = Callable[[Client, Guarded, Given], Reply]


def path_of(write: Write) -> str:
    """Return the path of the API that a write goes to."""
    if isinstance(write, Post):
        return write.path
    ref = None if isinstance(write, Create) else write.ref
    resource = KINDS[write.kind if isinstance(write, Create) else write.ref.kind].resource
    namespace = ("default" if isinstance(write, Create) else write.ref.namespace) if resource.namespaced else ""
    inside = f"/namespaces/{namespace}" if namespace else ""
    collection = f"/apis/{resource.group}/{resource.version}{inside}/{resource.plural}"
    named = ref is not None and not (isinstance(write, Delete) and write.all)
    return f"{collection}/{ref.name}" if ref is not None and named else collection


def method_of(write: Write) -> str:
    return {Create: "POST", Edit: "PUT", Delete: "DELETE", Post: "POST"}[type(write)]


def document(write: Write) -> dict[str, Any]:
    """Return the body of a write; {}: it has none."""
    if isinstance(write, Create):
        resource = KINDS[write.kind].resource
        metadata = {"name": write.name} | ({"namespace": "default"} if resource.namespaced else {})
        return {"apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata, "spec": write.spec}
    if isinstance(write, Edit):
        return write.edited(edited(document_of(found(write.ref))))
    return write.body if isinstance(write, Post) else {}


def console(client: Client, act: Guarded, given: Given) -> Reply:
    """The page of the act: GET shows the dry run, POST confirms."""
    shown = client.get(act.console, HTTP_ACCEPT=HTML)
    assert shown.status_code == 200, shown.content.decode()
    form = shown.content.decode().rpartition("<h2>Confirm</h2>")[2]
    fields = dict(re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', form))
    del fields["csrfmiddlewaretoken"]
    if not given:
        return Reply(422, shown.content.decode())
    answer = client.post(act.console.partition("?")[0], {**fields, **given}, HTTP_ACCEPT=HTML)
    return Reply(answer.status_code, answer.content.decode(), answer.headers.get("Location", ""))


def admin(client: Client, act: Guarded, given: Given) -> Reply:
    """The form of the admin, whose next page asks for the rest."""
    url, sent = admin_form(act)
    asked = client.post(url, sent)
    if not given:
        return Reply(422, asked.content.decode())
    if asked.status_code == 302:
        return Reply(302, "")
    context = asked.context
    again: dict[str, Any] = {**given, "concerned": context["concerned"]}
    for name, value in context["hidden"]:
        again.setdefault(name, []).append(value)
    answer = client.post(url, again, follow=True)
    asks = "question" in (answer.context or {})
    return Reply(422 if asks else 303, answer.content.decode(), "" if asks else "/")


def admin_form(act: Guarded) -> tuple[str, dict[str, Any]]:
    """Return the URL and the fields of the form that does the act."""
    write = act.write
    if isinstance(write, Create):
        return list_of(write.kind) + "add/", {"document": yaml.safe_dump(document(write)), "_continue": "1"}
    assert isinstance(write, Edit | Delete)
    if act.admin:
        return page_of(found(write.ref)).replace("change/", f"{act.admin}/"), {}
    if isinstance(write, Edit):
        now = found(write.ref)
        basis = now.metadata.resource_version
        return page_of(now), {"document": to_yaml(document(write)), "basis": basis, "_continue": "1"}
    if not write.all:
        return page_of(found(write.ref), "delete"), {}
    rows = [page_of(one).split("/")[-3] for one in store().list(write.ref.kind)]
    return list_of(write.ref.kind), {"action": "delete_selected", "_selected_action": rows}


def pages(client: Client, act: Guarded, given: Given) -> Reply:
    """The browsable API: the body is the object, the answers are in the query."""
    assert act.write is not None
    body = document(act.write)
    answer = client.generic(
        method_of(act.write),
        path_of(act.write),
        json.dumps(body) if body else "",
        content_type=JSON,
        headers={"Accept": HTML},
        query_params=given,
    )
    text = answer.content.decode()
    watch = re.search(r'Watch what it does:\s*<a href="([^"]+)"', text)
    return Reply(303 if answer.status_code < 300 else answer.status_code, text, watch[1] if watch else "")


WAYS: Final[dict[str, Way]] = {"console": console, "admin": admin, "browsable API": pages}


def has(way: str, act: Guarded) -> bool:
    """Test whether a way in offers the act, and asks about it."""
    if way == "console":
        return bool(act.console)
    if act.write is None or not act.says:
        return False
    if way == "admin":
        return not isinstance(act.write, Post)
    return not (isinstance(act.write, Delete) and act.write.all)  # no page of a list deletes


CASES = [(name, way) for name, act in ACTS.items() for way in WAYS if has(way, act)]


@pytest.fixture(autouse=True)
def health_is_closed(root: Client) -> Iterator[None]:
    yield
    HEALTH.close()  # before the database is dropped


def sentence(act: Guarded, way: str, size: int) -> str:
    """Return the pattern of the preview of an act about so many workloads."""
    says = act.on_page if way == "console" and act.on_page else act.says
    copies, evictions = (f"{size} {'copies' if what == 'c' else 'evictions'}" for what in "ce")
    return says.format(size=size, copies=copies, evictions=evictions, bindings=f"{size} bindings stay")


@pytest.mark.parametrize("size", [FEW, MANY])
@pytest.mark.parametrize(("name", "way"), CASES)
def test_an_act_is_asked_about_before_it_is_done(root: Client, name: str, way: str, size: int) -> None:
    act = ACTS[name]
    fleet(size)
    act.prepare(size)
    before = store().current_version()

    shown = WAYS[way](root, act, {})
    without = WAYS[way](root, act, {"reason": " ", "typed": subject_of(shown)})
    untyped = WAYS[way](root, act, {"reason": REASON})
    typed = untyped if untyped.status == 303 else WAYS[way](root, act, {"reason": REASON, "typed": subject_of(untyped)})

    assert re.search(sentence(act, way, size), plain(shown.text), re.IGNORECASE), plain(shown.text)[-3000:]
    assert re.search(r"kubectl (?:lifeboat|create|apply|patch|replace|delete) ", unescape(shown.text))
    assert without.status == 422
    assert "Write the reason. The change log keeps it with your name." in plain(without.text)
    types = (act.on_page_types if way == "console" else "") or act.types
    must_type = bool(types) and (size == MANY or act.always)
    assert subject_of(untyped) == (types if must_type else ""), plain(untyped.text)[-3000:]
    assert (untyped.status == 422) == must_type, plain(untyped.text)[-3000:]
    assert typed.status == 303, plain(typed.text)[-3000:]
    assert typed.location.startswith("/")
    logged = ChangeLog.objects.filter(version__gt=before)
    assert [one.actor for one in logged if REASON in one.reason][:1] == ["root"], list(logged.values_list("reason"))


def subject_of(reply: Reply) -> str:
    """Return what a page asks to type; "": nothing."""
    found = re.search(r"[Tt]ype (?:<code>)?([\w.-]+)(?:</code>)? to confirm|Type ([\w.-]+):", unescape(reply.text))
    return (found[1] or found[2]) if found else ""


@pytest.mark.parametrize("name", [name for name, act in ACTS.items() if act.write is not None and act.says])
def test_a_client_reads_the_effects_as_a_warning_under_a_dry_run_and_when_it_writes(root: Client, name: str) -> None:
    act = ACTS[name]
    fleet(FEW)
    act.prepare(FEW)
    before = store().current_version()
    write = act.write
    assert write is not None
    body = document(write)

    def sent(**query: str) -> Any:
        return root.generic(
            method_of(write),
            path_of(write),
            json.dumps(body) if body else "",
            content_type=JSON,
            headers={"Accept": JSON},
            query_params=query,
        )

    tried = sent(dryRun="All")
    unchanged = store().current_version()
    done = sent(reason=REASON)

    assert (tried.status_code < 300, done.status_code < 300) == (True, True), (tried.content, done.content)
    assert re.search(f"effects: .*({sentence(act, '', FEW)})", tried.headers.get("Warning", ""))
    assert unchanged == before
    if name not in QUIET:
        assert re.search(f"effects: .*({sentence(act, '', FEW)})", done.headers.get("Warning", ""))
    logged = ChangeLog.objects.filter(version__gt=before)
    assert [one.actor for one in logged if REASON in one.reason][:1] == ["root"], list(logged.values_list("reason"))


QUIET: Final = {
    "delete a policy": "it moves nothing",
    "edit a policy without effects": "it moves nothing",
    "taint NoSchedule": "it moves nothing",
    "a new policy": "what it places has not run before",
}
"""Acts that warn only those who ask, by a dry run or on a page."""

ELSEWHERE_ON_PAGES: Final = {
    "development": "a fault of a simulated cluster: test_console_development",
    "drill-stop": "it ends an order, and moves nothing: test_console_rights, test_drills_page",
    "order-act": "it ends or resumes an order: test_console_rights",
}


def test_every_act_of_the_console_and_every_dangerous_command_is_in_the_table() -> None:
    """A new act fails here until it is in ACTS, and by that in the tests of its guard rail on every way in."""
    tabled = {resolve(act.console.partition("?")[0]).url_name for act in ACTS.values() if act.console}
    pages_of_acts = {one.name for one in urlpatterns if issubclass(one.callback.view_class, ActPage)}  # type: ignore[attr-defined]
    commands = {act.command for act in ACTS.values() if act.command}

    assert pages_of_acts - tabled == ELSEWHERE_ON_PAGES.keys()
    assert {*OF_COMMANDS, *ELSEWHERE} - commands == {"import", "join", "takeover", "observe"}
    assert commands <= {*OF_COMMANDS, *ELSEWHERE}
