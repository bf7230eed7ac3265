"""What an import writes of the objects of another control plane."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from apps.command.import_plan import JOB, planned
from apps.command.source import Files

UID = {"batch.kubernetes.io/controller-uid": "a", "controller-uid": "a"}
NAMES = {"batch.kubernetes.io/job-name": "once", "job-name": "once"}


@pytest.mark.parametrize("manual", [False, True])
def test_a_job_is_written_as_its_author_wrote_it(tmp_path: Path, manual: bool) -> None:
    labels = {"team": "a", **UID, **NAMES}
    spec: dict[str, Any] = {
        "completions": 2,
        "selector": {"matchLabels": UID},
        "template": {"metadata": {"labels": labels}},
    }
    job = {
        "apiVersion": JOB[0],
        "kind": JOB[1],
        "metadata": {"name": "once", "namespace": "lab"},
        "spec": {**spec, **({"manualSelector": True} if manual else {})},
    }
    resource = {"apiVersion": JOB[0], "kind": JOB[1], "namespace": "lab", "name": "once"}
    binding = {
        "apiVersion": "work.karmada.io/v1alpha2",
        "kind": "ResourceBinding",
        "metadata": {"name": "once-job", "namespace": "lab"},
        "spec": {"resource": resource, "clusters": [{"name": "member1"}]},
    }
    (tmp_path / "all.json").write_text(json.dumps({"kind": "List", "items": [job, binding]}))

    [written] = [item.document["spec"] for item in planned(Files([tmp_path])) if item.identity[:2] == JOB]

    expected = job["spec"] if manual else {"completions": 2, "template": {"metadata": {"labels": {"team": "a"}}}}
    assert written == expected
