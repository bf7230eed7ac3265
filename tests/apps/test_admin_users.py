"""Users and groups in the admin: who may write them may become an administrator [no-escalation]."""

from __future__ import annotations

from typing import Any

import pytest
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group, Permission
from django.test import Client
from django.urls import reverse

NAMES = [f"{verb}_{model}" for verb in ("add", "change", "delete", "view") for model in ("user", "group")]
DAY = {"date_joined_0": "2026-03-14", "date_joined_1": "02:36:26"}


@pytest.fixture
def delegate(clerk: Client) -> Client:
    """A browser of staff to whom all permissions of Django about users and groups were given."""
    user = get_user_model().objects.get(username="clerk")
    user.user_permissions.set(Permission.objects.filter(codename__in=NAMES, content_type__app_label="auth"))
    return clerk


def fields(name: str, **more: str) -> dict[str, Any]:
    return {"username": name, "is_active": "on", "is_staff": "on", **DAY, **more}


def url(page: str, *args: Any) -> str:
    return reverse(f"admin:auth_{page}", args=args)


def test_staff_with_permissions_of_django_do_not_become_administrators(delegate: Client) -> None:
    users = get_user_model().objects
    me, masters = users.get(username="clerk"), Group.objects.create(name="system:masters")
    boss = users.create_superuser("boss", password="correct-horse-battery")
    new = {"password1": "a-long-one-for-tests", "password2": "a-long-one-for-tests"}

    answers = [
        delegate.post(url("user_change", me.pk), fields("clerk", is_superuser="on")),
        delegate.post(url("user_change", me.pk), fields("clerk", groups=str(masters.pk))),
        delegate.post(url("user_add"), {"username": "second", "usable_password": "true", **new}),
        delegate.post(reverse("admin:auth_user_password_change", args=[boss.pk]), new),
        delegate.post(url("user_delete", boss.pk), {"post": "yes"}),
        delegate.post(url("group_add"), {"name": "shop-team"}),
        delegate.post(url("group_change", masters.pk), {"name": "other"}),
    ]

    assert [answer.status_code for answer in answers] == [403] * 7
    me.refresh_from_db()
    boss.refresh_from_db()
    assert (me.is_superuser, me.groups.count()) == (False, 0)
    assert boss.check_password("correct-horse-battery")
    assert delegate.get(url("user_changelist")).status_code == 200
    assert delegate.get(url("user_change", boss.pk)).status_code == 200


def test_administrators_write_users_and_groups(root: Client) -> None:
    group = Group.objects.create(name="shop-team")
    user = get_user_model().objects.create_user("eva")

    changed = root.post(url("user_change", user.pk), fields("eva", groups=str(group.pk)))

    assert changed.status_code == 302
    assert [found.name for found in user.groups.all()] == ["shop-team"]
    assert root.post(url("group_add"), {"name": "other-team"}).status_code == 302
