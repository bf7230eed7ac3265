"""A kubeconfig that `manage.py join` or an agent cannot use is an error that shows nothing of its text."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from apps.agent.credentials import Unusable
from apps.agent.credentials import read as agent_reads
from apps.clusters.joining import JoinError, from_kubeconfig

SECRET = "lb_only-for-tests"
CONTEXT = {"name": "a", "context": {"cluster": "a", "user": "a"}}
NO_USER = {"current-context": "a", "contexts": [CONTEXT], "clusters": [{"name": "a", "cluster": {}}], "users": []}


@pytest.mark.parametrize("text", [f'users: "{SECRET}', SECRET, json.dumps(NO_USER)], ids=["quote", "text", "no user"])
def test_server_and_agent_show_no_text_of_a_kubeconfig_that_they_cannot_use(text: str, tmp_path: Path) -> None:
    file = tmp_path / "kubeconfig"
    file.write_text(text)

    with pytest.raises(JoinError) as joined:
        from_kubeconfig("member1", file)
    with pytest.raises(Unusable) as read:
        agent_reads(file)

    assert SECRET not in f"{joined.value}{joined.value.__cause__}{read.value}{read.value.__cause__}"
