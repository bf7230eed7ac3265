"""When credentials were last used: what is noted in memory is written, whatever has become of its user meanwhile."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore
from django.contrib.sessions.models import Session

from apps.api.clock import wall_now
from apps.api.last_use import LastUses, SessionUse
from apps.api.models import LoginSession

pytestmark = pytest.mark.django_db(transaction=True)


def used(user_id: int) -> SessionUse:
    """Return the use of a new session of a user."""
    session = SessionStore()
    session.create()
    assert session.session_key is not None
    return SessionUse(session.session_key, user_id, wall_now(), "192.0.2.7", "a browser")


def test_a_user_who_is_deleted_after_a_use_keeps_no_other_use_from_being_written() -> None:
    users = get_user_model().objects
    gone, stays = users.create_user("eve"), users.create_user("erin")
    uses = LastUses()
    uses.note_session(used(gone.pk))
    gone.delete()  # Django keeps the session
    kept = used(stays.pk)
    uses.note_session(kept)

    uses.flush()
    uses.flush()

    assert [row.session_key for row in LoginSession.objects.all()] == [kept.key]


def test_sessions_that_have_expired_are_removed_when_another_one_is_used() -> None:
    erin = get_user_model().objects.create_user("erin")
    uses = LastUses()
    old, new = used(erin.pk), used(erin.pk)
    uses.note_session(old)
    uses.flush()
    Session.objects.filter(pk=old.key).update(expire_date=wall_now() - timedelta(seconds=1))

    uses.note_session(new)
    uses.flush()

    assert [row.session_key for row in Session.objects.all()] == [new.key]
    assert [row.session_key for row in LoginSession.objects.all()] == [new.key]
