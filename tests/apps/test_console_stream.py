"""A part that many watch is rendered once for all, and only if what it shows has changed."""

from __future__ import annotations

import threading
from typing import Any

from django.test import Client

from apps.console.board import Board
from apps.console.shared import SharedParts
from apps.console.situation import Rights, SituationPart
from tests.apps.pages import stored
from tests.stores.grounds import cluster, template

NOBODY, EVERYTHING = Rights(False, False, False, False), Rights(True, True, True, True)


def test_readers_with_equal_rights_get_the_same_rendering_and_others_their_own(root: Client) -> None:
    stored(cluster("member1"))
    shared = SharedParts()

    first = [shared.event(SituationPart(NOBODY), round_=1)[1] for _ in range(3)]
    other = shared.event(SituationPart(EVERYTHING), round_=1)[1]

    assert first[0] is first[1] is first[2]
    assert b"/pause" in other
    assert b"/pause" not in first[0]


def test_a_part_is_rendered_again_only_if_it_shows_something_else(root: Client) -> None:
    stored(cluster("member1"))
    shared, part = SharedParts(), SituationPart(NOBODY)

    before = shared.event(part, round_=1)
    stored(template("unseen"))
    same = shared.event(part, round_=2)
    stored(cluster("member2"))
    changed = shared.event(part, round_=3)

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


def until_begun(board: Any) -> None:
    """Wait until the board has read for the first time: it names what changes after that."""
    assert board.begun.wait(30)
