"""Scripts say what the object of a member keeps, and not which marks of the control plane it has [member-writes]."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from apps.clusters.client import MemberClient
from apps.interpretation.rule_answers import Interpretation
from apps.simulator.members import Fleet
from controlplane.apimachinery.names import (
    MANAGED_LABEL,
    MANAGED_LABEL_VALUE,
    TEMPLATE_GENERATION_ANNOTATION,
    WORK_NAME_ANNOTATION,
)
from controlplane.clusters.questions import Answer, Discard, Ensure
from controlplane.interpret import INTERPRETERS, Unanswered
from controlplane.settings import MemberSettings
from tests.apps.test_client import on_a_fleet, target, workload
from tests.core.test_customized import customization

DEPLOYMENT = "/apis/apps/v1/namespaces/default/deployments/web"


def _manifest(image: str, generation: str) -> dict[str, Any]:
    made = workload(image)
    notes = {TEMPLATE_GENERATION_ANNOTATION: generation, WORK_NAME_ANNOTATION: "web-1"}
    return {**made, "metadata": {**made["metadata"], "annotations": notes}}


@pytest.mark.parametrize(
    "line",
    [
        "desired.metadata.labels = nil",
        "desired.metadata.labels = {theirs = observed.metadata.labels.theirs}",
        "desired.metadata.annotations = observed.metadata.annotations",
    ],
)
def test_a_script_that_changes_the_marks_of_a_copy_keeps_it_neither_from_updates_nor_from_removal(line: str) -> None:
    async def story(fleet: Fleet, client: MemberClient) -> None:
        member = target(fleet)

        async def ensured(manifest: dict[str, Any]) -> Answer:
            while True:
                try:
                    return await client.ensure(Ensure(member, manifest, overwrite=False))
                except Unanswered as unanswered:
                    await asyncio.to_thread(service.interpret, unanswered.questions)

        assert (await ensured(_manifest("web:1", "1"))).ok
        for number in ("2", "3"):
            answer = await ensured(_manifest(f"web:{number}", number))
            assert answer.ok, answer.problem
            metadata = answer.body["metadata"]
            assert metadata["labels"][MANAGED_LABEL] == MANAGED_LABEL_VALUE
            assert metadata["annotations"][TEMPLATE_GENERATION_ANNOTATION] == number
            assert metadata["annotations"][WORK_NAME_ANNOTATION] == "web-1"
        await client.discard(Discard(member, _manifest("web:3", "3")))
        assert (await client.call(member, "GET", DEPLOYMENT)).code == 404

    service = Interpretation(INTERPRETERS, MemberSettings())
    text = f"function Retain(desired, observed) {line} return desired end"
    INTERPRETERS.set_rules([customization("c", retention=text)])
    try:
        on_a_fleet(story)()
    finally:
        INTERPRETERS.set_rules([])
        service.close()
