"""No page shows what a Secret holds, and a Secret can be edited without having been shown."""

from __future__ import annotations

import base64

import pytest
from django.test import Client
from django.urls import reverse

from apps.objects.masks import MASK, masked, unmasked, without_contents
from apps.objects.secret_fields import LAST_APPLIED
from controlplane.apimachinery.meta import Object
from controlplane.kind import KINDS
from tests.apps.pages import change, found, list_of, page_of, save, secret, stored, text_in
from tests.builders.objects import work

VALUE = base64.b64encode(b"hunter2-hunter2").decode()


def test_no_page_renders_the_value_of_a_secret(root: Client) -> None:
    made = stored(secret("login", password=VALUE))[0]
    noted = change(made, made.with_meta(annotations={LAST_APPLIED: f'{{"data": {{"password": "{VALUE}"}}}}'}))
    changed = change(noted, noted.with_content({"type": "Opaque", "data": {"password": VALUE, "more": VALUE}}))
    manifest = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "login"}, "data": {"password": VALUE}}
    carrier = stored(work("carrier", "member1", manifest=manifest))[0]
    versions = [one.metadata.resource_version for one in (made, noted, changed, carrier)]
    urls = [
        list_of("Secret"),
        page_of(made),
        page_of(made, "delete"),
        page_of(carrier),
        reverse("admin:objects_changelog_changelist"),
        *(reverse("admin:objects_changelog_change", args=[version]) for version in versions),
    ]

    pages = {url: root.get(url) for url in urls}

    assert [url for url, page in pages.items() if page.status_code != 200] == []
    assert [url for url, page in pages.items() if VALUE in page.content.decode()] == []
    assert f"password: {MASK}" in pages[page_of(made)].content.decode()


def test_no_page_of_the_browsable_api_renders_the_value_of_a_secret(root: Client) -> None:
    made = stored(secret("login", password=VALUE))[0]
    noted = change(made, made.with_meta(annotations={LAST_APPLIED: f'{{"data": {{"password": "{VALUE}"}}}}'}))
    carrier = stored(work("carrier", "member1", manifest=noted.document()))[0]
    pages = {
        url: root.get(url, headers={"accept": "text/html"})
        for one in (noted, carrier)
        for url in (url_of(one), url_of(one).rpartition("/")[0])
    }

    assert [url for url, page in pages.items() if page.status_code != 200] == []
    assert [url for url, page in pages.items() if VALUE in page.content.decode()] == []
    assert "password:" in pages[url_of(carrier)].content.decode()


def url_of(obj: Object) -> str:
    resource = KINDS[obj.ref.kind].resource
    root = f"/apis/{resource.group}" if resource.group else "/api"
    return f"{root}/{resource.version}/namespaces/{obj.ref.namespace}/{resource.plural}/{obj.ref.name}"


def test_the_log_shows_that_a_secret_changed_and_not_even_its_keys(root: Client) -> None:
    made = stored(secret("login", keyfile=VALUE))[0]
    now = change(made, made.with_content({"type": "Opaque", "data": {"pincode": VALUE}}))

    said = root.get(reverse("admin:objects_changelog_change", args=[now.metadata.resource_version])).content.decode()

    assert "MODIFIED" in said
    assert "keyfile" not in said
    assert "pincode" not in said


def test_editing_one_key_keeps_the_others(root: Client) -> None:
    made = stored(secret("login", user=VALUE, password=VALUE))[0]
    new = base64.b64encode(b"other").decode()
    text = text_in(root, page_of(made)).replace(f"user: {MASK}", f"user: {new}")

    save(root, page_of(made), text)

    assert found(made.ref).content["data"] == {"user": new, "password": VALUE}


def test_a_refused_edit_does_not_show_the_values_either(root: Client) -> None:
    made = stored(secret("login", password=VALUE))[0]

    answer = save(root, page_of(made), text_in(root, page_of(made)) + "\nunknown: 1\n")

    assert "unknown field" in answer.content.decode()
    assert VALUE not in answer.content.decode()


def test_the_mask_is_no_value(root: Client) -> None:
    made = stored(secret("login", password=VALUE))[0]

    said = save(root, page_of(made), text_in(root, page_of(made)).replace("password:", "passwort:")).content.decode()

    assert "data.passwort: " in said
    assert found(made.ref).content["data"] == {"password": VALUE}


def test_the_staff_does_not_see_that_there_are_secrets(clerk: Client) -> None:
    made = stored(secret("login", password=VALUE))[0]

    assert ">login</a>" not in clerk.get(list_of("Secret")).content.decode()
    assert clerk.get(page_of(made)).status_code == 404
    log = clerk.get(reverse("admin:objects_changelog_changelist")).content.decode()
    assert "login" not in log.replace("/admin/login", "")
    version = made.metadata.resource_version
    assert clerk.get(reverse("admin:objects_changelog_change", args=[version])).status_code == 404


SECRET = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "a"}, "data": {"k": "dg=="}}


@pytest.mark.parametrize(
    "document",
    [
        SECRET,
        {**SECRET, "stringData": {"plain": "text"}},
        {**SECRET, "metadata": {"name": "a", "annotations": {LAST_APPLIED: "all of it"}}},
        {**SECRET, "data": None},
        {"kind": "Work", "spec": {"workload": {"manifests": [{"kind": "ConfigMap", "data": {"k": "seen"}}, SECRET]}}},
        {"kind": "ConfigMap", "apiVersion": "v1", "data": {"k": MASK}},
    ],
)
def test_what_was_masked_comes_back_whole(document: dict[str, object]) -> None:
    hidden = masked(document)

    assert unmasked(hidden, document) == (document, [])
    for value in ("dg==", "text", "all of it"):
        assert value not in str(hidden)
        assert value not in str(without_contents(document))


def test_a_hidden_value_is_not_taken_from_another_secret() -> None:
    other = {**SECRET, "metadata": {"name": "other"}, "data": {"k": MASK}}

    causes = unmasked(other, SECRET)[1]

    assert [cause.field for cause in causes] == ["data.k"]
