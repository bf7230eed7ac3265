"""A part that many watch is rendered once for all, and only if what it shows has changed."""

from __future__ import annotations

import threading
from itertools import count
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from apps.api.authorization import Attributes
from apps.console.board import AWAY, BOARD, EVERYTHING, Board
from apps.console.shared import SharedParts
from apps.console.situation_page import Rights, SituationPart
from apps.console.stream import ALIVE, Topics
from apps.objects.access import access
from apps.objects.store import store
from apps.objects.writer import Author, Writer
from controlplane.authorization.policy import CLUSTER_ROLE_BINDING
from controlplane.kinds import CLUSTER
from controlplane.settings import Settings
from tests.apps.pages import stored
from tests.builders.bare import cluster, template

NO_RIGHTS, ALL_RIGHTS = Rights(False, False, False, False), Rights(True, True, True, True)


def test_readers_with_equal_rights_get_the_same_rendering_and_others_their_own(root: Client) -> None:
    stored(cluster("member1"))
    shared = SharedParts()

    first = [shared.document(SituationPart(NO_RIGHTS), round_=1)[1] for _ in range(3)]
    other = shared.document(SituationPart(ALL_RIGHTS), round_=1)[1]

    assert first[0] is first[1] is first[2]
    assert b"/pause" in other
    assert b"/pause" not in first[0]


def test_a_part_is_rendered_again_only_if_it_shows_something_else(root: Client) -> None:
    stored(cluster("member1"))
    shared, part = SharedParts(), SituationPart(NO_RIGHTS)

    before = shared.document(part, round_=1)
    stored(template("unseen"))
    same = shared.document(part, round_=2)
    stored(cluster("member2"))
    changed = shared.document(part, round_=3)

    assert same[1] is before[1]
    assert b"member2" in changed[1]


def test_the_board_names_kinds_references_and_tables_that_changed(root: Client) -> None:
    board, seen, noticed = Board(), list[frozenset[str]](), threading.Event()

    def reader(subjects: frozenset[str], round_: int) -> None:
        seen.append(subjects)
        if any("cluster.karmada.io/Cluster:late" in one for one in seen):
            noticed.set()

    board.join(reader)
    try:
        until_begun(board)
        stored(cluster("late"))

        assert noticed.wait(30)
        assert "cluster.karmada.io/Cluster" in frozenset().union(*seen)
    finally:
        board.leave(reader)
        board.ended.wait(30)


def test_a_page_that_was_rendered_before_a_change_is_renewed_when_its_stream_opens_after_it(root: Client) -> None:
    """A page is rendered, then evictions are paused, and only then does its stream open: nothing else follows."""
    stored(cluster("member1"))
    allowed = Attributes(User.objects.get(username="root"), "list", "cluster.karmada.io", "clusters")
    shared = Topics("/", {"situation": ()}, SituationPart(NO_RIGHTS), allowed=allowed)
    plain, sent = topics_of(User.objects.get(username="root")), threading.Event()

    plain.open(lambda: None)
    shared.open(sent.set)
    try:
        assert sent.wait(30)  # no subject of the part changes
        assert b"member1" in shared.take()
        assert plain.take() == b'event: topic\ndata: {"page":"/clusters","name":"clusters"}\n\n'
    finally:
        plain.close()
        shared.close()
        BOARD.ended.wait(30)


def until_begun(board: Any) -> None:
    """Wait until the board has read for the first time: it names what changes after that."""
    assert board.begun.wait(30)


def test_a_reader_whose_rights_are_gone_gets_nothing_more(clerk: Client) -> None:
    topics = topics_of(User.objects.get(username="clerk"))

    topics._notify(frozenset((CLUSTER,)), 1)
    allowed = topics.take()
    bound = [one.ref for one in store().list(CLUSTER_ROLE_BINDING) if one.metadata.name.startswith("clerk-")]
    Writer(store(), Settings(), Author("test", "Test")).delete(bound)
    access().policy(reread=True)
    topics._notify(frozenset((CLUSTER,)), 2)

    assert allowed == b'event: topic\ndata: {"page":"/clusters","name":"clusters"}\n\n'
    assert topics.take() == b'event: login\ndata: {"page":"/clusters"}\n\n'


def test_a_page_is_notified_when_the_database_goes_and_when_it_is_back(root: Client) -> None:
    topics = topics_of(User.objects.get(username="root"))

    topics._notify(frozenset((AWAY,)), 1)
    away = topics.take()
    topics._notify(frozenset((EVERYTHING,)), 2)
    back = topics.take()

    assert away.startswith(b"event: away")
    assert back.startswith(b"event: back")
    assert b'"name":"clusters"' in back


def topics_of(user: User) -> Topics:
    """Return the source of events of the page /clusters for a user."""
    allowed = Attributes(user, "list", "cluster.karmada.io", "clusters")
    return Topics("/clusters", {"clusters": (CLUSTER,)}, None, allowed=allowed)


def test_a_page_whose_subjects_stay_the_same_is_not_silent_while_others_change(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A browser that hears nothing for 20 s shows that Lifeboat or its database has not answered."""
    seconds, topics, woken = count(), topics_of(User.objects.get(username="root")), list[bytes]()
    monkeypatch.setattr("apps.console.stream.ticks", lambda: float(next(seconds)), raising=False)
    topics.open(lambda: woken.append(topics.take()))
    try:
        for round_ in range(20):
            topics._notify(frozenset(("ConfigMap",)), round_)
    finally:
        topics.close()
        BOARD.ended.wait(30)

    assert woken.count(ALIVE) in range(2, 6)


def test_a_red_line_appears_on_situation_while_objects_that_it_does_not_show_change(
    root: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds, allowed = count(), Attributes(User.objects.get(username="root"), "list", "cluster.karmada.io", "clusters")
    monkeypatch.setattr("apps.console.stream.ticks", lambda: float(next(seconds)), raising=False)
    topics = Topics("/", {"situation": (CLUSTER,)}, SituationPart(NO_RIGHTS), allowed=allowed)
    topics._notify(frozenset(), 1)
    first = topics.take()
    stored(cluster("member7"))  # seen only if the part is compared again

    for round_ in range(2, 20):
        topics._notify(frozenset(("ConfigMap",)), round_)

    assert b"member7" not in first
    assert b"member7" in topics.take()
