"""The kubeconfig of a member that `lifeboat join` cannot use is an error, which shows nothing secret."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from apps.command import exit_codes, kubeconfig, membership
from apps.command.program import app

TOKEN = "lb_only-for-tests"
KUBECONFIG = f"""
current-context: a
contexts: [{{name: a, context: {{cluster: a, user: a}}}}]
clusters: [{{name: a, cluster: {{server: "https://member1"}}}}]
users:
- name: a
  user:
    token: {TOKEN}
"""


@pytest.mark.parametrize(
    "text",
    [
        KUBECONFIG.replace(TOKEN, f"{TOKEN}: x"),
        KUBECONFIG.replace(TOKEN, f'"{TOKEN}'),
        KUBECONFIG.replace(f"\n    token: {TOKEN}", ""),
        KUBECONFIG.replace(TOKEN, "[1]"),
        f"{TOKEN}: \x00",
        "\udcff",
        "",
    ],
    ids=["colon", "quote", "no-user", "token-is-a-list", "nul", "not-utf-8", "empty"],
)
def test_a_file_that_cannot_be_used_is_a_usage_error_without_its_token(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "member1"
    file.write_bytes(text.encode(errors="surrogateescape"))
    monkeypatch.setattr(kubeconfig, "read", lambda *_: kubeconfig.Access("https://lifeboat", "", None, str))
    monkeypatch.setattr(membership, "_check_stays", lambda *_, mode: None)

    done = CliRunner().invoke(app, ["join", "member1", "--cluster-kubeconfig", str(file)])

    assert done.exit_code == exit_codes.USAGE.code, done.exc_info
    assert str(file) in done.stderr
    assert TOKEN not in done.stderr
