"""A kubeconfig that the command cannot use: the error names the field, and never shows the token."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from apps.command import exit_codes
from apps.command.program import app

SECRET = "lb_only-for-tests"
KUBECONFIG: dict[str, Any] = {
    "current-context": "a",
    "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
    "clusters": [{"name": "a", "cluster": {"server": "https://127.0.0.1:1"}}],
    "users": [{"name": "a", "user": {"token": SECRET}}],
}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"users": [{"name": "a", "token": SECRET}]}, "user"),
        ({"users": [{"name": "a", "user": SECRET}]}, "users[0].user is a text"),
        ({"users": {"a": {"token": SECRET}}}, "users is an object"),
        ({"users": [{"token": SECRET}]}, "users[0].name is missing"),
        ({"users": [{"name": "a", "user": {"token": {SECRET: 1}}}]}, "users[0].user.token is an object"),
        ({"clusters": [{"name": "a", "cluster": {"server": 5}}]}, "clusters[0].cluster.server is a whole number"),
        ({"clusters": [{"name": "a", "cluster": {"server": "here"}}]}, 'is "here"; write https://HOST:PORT'),
        ({"contexts": "a"}, "contexts is a text"),
        ({"contexts": []}, "contexts"),
    ],
)
def test_a_kubeconfig_that_cannot_be_used_is_one_sentence_without_its_token(
    change: dict[str, Any], said: str, tmp_path: Path
) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(KUBECONFIG | change))

    done = CliRunner().invoke(app, ["clusters", "--kubeconfig", str(file)])

    assert isinstance(done.exception, SystemExit), done.exc_info
    assert done.exit_code in (exit_codes.USAGE.code, exit_codes.NOT_FOUND.code)
    assert said in done.stderr
    assert SECRET not in done.stderr
