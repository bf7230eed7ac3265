"""When credentials were last used: what is noted in memory is written, whatever has become of its user meanwhile."""

from __future__ import annotations

import pytest
from django.contrib.auth import get_user_model
from django.contrib.sessions.backends.db import SessionStore

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
