"""A failover is shown in a sentence that says why it happened."""

from __future__ import annotations

import pytest

from controlplane.insight.failover_sentence import CAUSES
from controlplane.kinds.binding import APPLICATION_FAILURE, FAILED_BACK, IN_PART, REVERTED, TAINT_UNTOLERATED


@pytest.mark.parametrize("reason", sorted({TAINT_UNTOLERATED, APPLICATION_FAILURE, FAILED_BACK, REVERTED} | IN_PART))
def test_every_reason_of_a_task_has_words_of_its_own(reason: str) -> None:
    assert reason in CAUSES
