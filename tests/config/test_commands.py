"""An option that is impossible is refused in words, before anything is done."""

import os

import pytest

from tests import forked


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--clusters", "0"], "argument --clusters: '0' is not a whole number of 1 or more"),
        (["--bindings=-1"], "argument --bindings: '-1' is not a whole number of 0 or more"),
        (["--clusters", "many"], "argument --clusters: 'many' is not a whole number of 1 or more"),
    ],
)
def test_a_fleet_of_no_clusters_or_of_fewer_bindings_than_none_is_refused(options: list[str], words: str) -> None:
    reported = {**os.environ, "LIFEBOAT_SECRET_KEY": "x", "LIFEBOAT_DEVELOPMENT": "true"}

    done = forked.python(["manage.py", "fleet", *options], env=reported)

    assert (done.returncode, words in done.stderr) == (2, True), done.stderr
