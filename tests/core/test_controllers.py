"""What holds for all controllers together."""

from __future__ import annotations

from collections import Counter

from controlplane.controllers import CONTROLLERS
from controlplane.controllers.reads.member_controller import MemberController


def test_a_name_means_one_controller() -> None:
    assert [name for name, times in Counter(one.name for one in CONTROLLERS).items() if times > 1] == []


def test_the_members_process_runs_those_that_ask_members_and_no_others() -> None:
    asking = {one.name for one in CONTROLLERS if isinstance(one, MemberController)}

    assert asking == {one.name for one in CONTROLLERS if one.group == "members"}
