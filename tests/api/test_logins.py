"""Tokens and sessions that end, and the streams that end with them."""

from __future__ import annotations

import http.client
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from django.contrib import admin
from django.contrib.auth.models import User
from django.test import RequestFactory

from apps.api import streams
from apps.api.admin import TokenAdmin
from apps.api.models import Token
from tests.api.server import Client, Server
from tests.api.test_browser_session import Browser
from tests.builders.documents import config_map, config_maps
from tests.processes import manage

LISTS = "/api/v1/namespaces"
SOON = 15.0  # seconds; two and a little on a machine that has nothing else to do


@pytest.fixture
def user(server: Server) -> Iterator[str]:
    name = f"person-{time.monotonic_ns()}"
    server.sql(
        f"""INSERT INTO auth_user (username, password, is_superuser, is_staff, is_active, date_joined,
            first_name, last_name, email) VALUES ('{name}', '!', true, true, true, now(), '', '', '')"""
    )
    yield name
    server.sql(f"DELETE FROM api_token WHERE user_id = (SELECT id FROM auth_user WHERE username = '{name}')")


def ends(stream: object) -> bool:
    """Return whether a stream ends soon, without an event."""
    stream.response.fp.raw._sock.settimeout(SOON)  # type: ignore[attr-defined]
    try:
        stream.next()  # type: ignore[attr-defined]
    except (EOFError, http.client.HTTPException):
        return True
    except TimeoutError:
        return False
    raise AssertionError("an event came")


@pytest.mark.parametrize(
    "what",
    [
        "DELETE FROM api_token WHERE user_id = (SELECT id FROM auth_user WHERE username = '{0}')",
        "UPDATE api_token SET expires = now() WHERE user_id = (SELECT id FROM auth_user WHERE username = '{0}')",
        "UPDATE auth_user SET is_active = false WHERE username = '{0}'",
        "UPDATE auth_user SET is_superuser = false WHERE username = '{0}'",
    ],
    ids=["revoked", "expired", "user deactivated", "rights taken away"],
)
def test_a_watch_ends_with_its_token(server: Server, user: str, what: str) -> None:
    api = server.client(server.manage("token", "create", "--user", user))
    with api.watch(LISTS, fieldSelector="metadata.name=none") as stream, server.client().watch(LISTS) as other:
        assert stream.status == 200
        other.next()
        server.sql(what.format(user))

        assert ends(stream)
        assert other.next()["type"] == "ADDED", "the watch of another token goes on"


def test_nothing_is_sent_to_a_token_that_was_revoked(server: Server, user: str, api: Client, namespace: str) -> None:
    token = server.client(server.manage("token", "create", "--user", user))
    with token.watch(config_maps(namespace)) as stream:
        server.manage("token", "revoke", "--user", user)
        assert ends(stream)
        api.post(config_maps(namespace), config_map("late"))
    assert token.get(LISTS).status == 401


def test_the_watch_of_a_browser_ends_when_its_person_logs_out(server: Server) -> None:
    browser = Browser(server)
    assert browser.log_in("admin", "correct-horse-battery").status == 302
    cookies = "; ".join(f"{name}={value}" for name, value in browser.cookies.items())
    connection = http.client.HTTPConnection(*browser.client.address, timeout=SOON)
    connection.request("GET", f"{LISTS}?watch=true&fieldSelector=metadata.name%3Dnobody", headers={"Cookie": cookies})
    response = connection.getresponse()
    assert response.status == 200

    out = f"csrfmiddlewaretoken={browser.cookies['csrftoken']}".encode()
    assert browser.open("POST", "/login/logout/", out, Content_Type="application/x-www-form-urlencoded").status < 400

    assert response.readline() == b""


@pytest.mark.parametrize(
    ("asked", "least", "most"), [("999999999", 3600, 3600), ("5", 5, 5), ("0", 1800, 3600), (None, 1800, 3600)]
)
def test_no_watch_lasts_longer_than_an_hour(asked: str | None, least: float, most: float) -> None:
    found = streams._seconds({} if asked is None else {"timeoutSeconds": asked})

    assert least <= found <= most


def valid_until(server: Server, user: str) -> datetime | None:
    query = f"SELECT expires FROM api_token t JOIN auth_user u ON u.id = user_id WHERE username = '{user}'"
    found: datetime | None = server.sql(query)[0][0]
    return found


def days_from_now(moment: datetime | None) -> int:
    assert moment is not None
    return round((moment - datetime.now(UTC)) / timedelta(days=1))


def test_a_token_has_a_lifetime_and_is_renewed(server: Server, user: str) -> None:
    api = server.client(server.manage("token", "create", "--user", user))
    assert days_from_now(valid_until(server, user)) == 90
    server.sql(
        "UPDATE api_token SET expires = now() - interval '1 hour' WHERE lifetime IS NOT NULL AND "
        f"user_id = (SELECT id FROM auth_user WHERE username = '{user}')"
    )
    assert api.get(LISTS).status == 401
    assert f"{user}\ttoken\texpired " in server.manage("token", "list")

    assert server.manage("token", "renew", "--user", user).startswith("until 2")
    assert days_from_now(valid_until(server, user)) == 90
    assert api.get(LISTS).status == 200, "the secret is the same"

    server.manage("token", "renew", "--user", user, "--days", "7")
    assert days_from_now(valid_until(server, user)) == 7


def test_a_token_that_never_expires_is_asked_for_and_reported(server: Server, user: str) -> None:
    server.manage("token", "create", "--user", user, "--days", "0")

    assert f"{user}\ttoken\tuntil revoked" in server.manage("token", "list")
    assert "tokens never expire: see manage.py token list;" in server.manage("prepare")
    server.manage("token", "renew", "--user", user)
    assert days_from_now(valid_until(server, user)) == 90


def test_a_number_of_days_that_is_none_is_refused(server: Server) -> None:
    done = manage("token", "create", "--user", "admin", "--days=-1", environment=server.environment)

    assert (done.returncode, "'-1' is not a whole number of days" in done.stderr) == (2, True), done.stderr


def test_the_token_of_an_agent_is_renewed_by_use(server: Server, api: Client) -> None:
    name = f"pull-{time.monotonic_ns()}"
    server.manage("join", name, "--pull")
    agent = server.client(server.manage("token", "create", "--agent", name, "--days", "30"))
    login = f"system:lifeboat:agent:{name}"
    server.sql(
        f"UPDATE api_token SET expires = now() + interval '1 day' "
        f"WHERE user_id = (SELECT id FROM auth_user WHERE username = '{login}')"
    )

    assert agent.get(f"/apis/cluster.karmada.io/v1alpha1/clusters/{name}").status == 200

    assert days_from_now(valid_until(server, login)) == 30
    assert "renewed by use" in server.manage("token", "list", "--user", login)


def test_administrators_renew_and_revoke_in_the_admin(server: Server, user: str) -> None:
    server.manage("token", "create", "--user", user, "--days", "3")
    browser = Browser(server)
    browser.log_in("admin", "correct-horse-battery")
    page = browser.open("GET", f"/admin/api/token/?q={user}")
    assert (page.status, user.encode() in page.body) == (200, True)
    key = server.sql(
        f"SELECT t.id, digest FROM api_token t JOIN auth_user u ON u.id = user_id WHERE username = '{user}'"
    )[0]
    detail = browser.open("GET", f"/admin/api/token/{key[0]}/change/")
    assert (detail.status, key[1].encode() in detail.body) == (200, False)

    def act(action: str, *more: str) -> tuple[int, str]:
        fields = (
            f"csrfmiddlewaretoken={browser.cookies['csrftoken']}",
            f"action={action}",
            f"_selected_action={key[0]}",
        )
        form = "&".join((*fields, *more))
        answer = browser.open(
            "POST", "/admin/api/token/", form.encode(), Content_Type="application/x-www-form-urlencoded"
        )
        return answer.status, answer.body.decode()

    confirmation = ("reason=it+was+lost", "concerned=0")
    server.sql(f"UPDATE api_token SET expires = now() WHERE id = {key[0]}")
    for verb in ("renew", "revoke"):
        asked = act(verb)
        assert (asked[0], f"manage.py token {verb} --user {user} --name token" in asked[1]) == (200, True), asked
        assert f"{verb.capitalize()} 1 token?" in asked[1]
        assert "Write the reason" in act(verb, "reason=", "concerned=0")[1]
    assert days_from_now(valid_until(server, user)) == 0
    assert act("renew", *confirmation)[0] == 302
    assert days_from_now(valid_until(server, user)) == 3
    assert act("revoke", *confirmation)[0] == 302
    assert server.sql(f"SELECT 1 FROM api_token WHERE id = {key[0]}") == []
    kept = server.sql(f"SELECT change_message FROM django_admin_log WHERE object_id = '{key[0]}' ORDER BY id")
    assert kept == [("renewed: it was lost",), ("revoked: it was lost",)]
    assert act("revoke", *confirmation)[0] == 302  # and the next page says that it exists no more


@pytest.mark.django_db
def test_staff_without_a_role_see_and_change_no_tokens(rf: RequestFactory) -> None:
    request = rf.get("/admin/api/token/")
    request.user = User.objects.create_user("staff", is_staff=True)

    page = TokenAdmin(Token, admin.site)

    assert not page.has_view_permission(request)
    assert not page.has_delete_permission(request)
    assert page.get_actions(request) == {}
