"""Derived uids are the standard's."""

from __future__ import annotations

import uuid

from hypothesis import given
from hypothesis import strategies as st

from controlplane.apimachinery.uids import child_uid


@given(st.uuids(), st.text(max_size=20), st.text(max_size=20))
def test_a_child_uid_is_uuid5_of_parent_role_and_name(parent: uuid.UUID, role: str, name: str) -> None:
    assert child_uid(str(parent), role, name) == str(uuid.uuid5(parent, f"{role}/{name}"))


@given(st.text(max_size=40))
def test_any_parent_gives_a_valid_uid_and_the_same_each_time(parent: str) -> None:
    uid = child_uid(parent, "work", "web")

    assert str(uuid.UUID(uid)) == uid
    assert uuid.UUID(uid).version == 5
    assert uid == child_uid(parent, "work", "web")
