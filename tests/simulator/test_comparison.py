"""Simulated members answer as a real kube-apiserver did: its recorded answers to some thousand requests.

`answers.json.gz` is made by `make members-compare LAB=…`. `differing.json` names the answers that still differ. It may
only become shorter: an answer that is as the real one stays so.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.simulator.comparison.answers import Simulated, answers_of, recorded
from tests.simulator.comparison.cases import Case, Step

DIFFERING = Path(__file__).parent / "comparison" / "differing.json"


def test_a_simulated_member_answers_as_the_real_one_did() -> None:
    found = recorded()
    cases = [Case(name, tuple(Step(*step) for step in steps)) for name, steps, _ in found["cases"]]
    real = {name: answers for name, _, answers in found["cases"]}
    known = {(name, number) for name, numbers in json.loads(DIFFERING.read_text()).items() for number in numbers}

    differing = {
        (name, number)
        for name, answers in answers_of(Simulated().send, cases)
        for number, (theirs, ours) in enumerate(zip(real[name], answers, strict=True), 1)
        if theirs != ours
    }

    assert sorted(differing - known) == [], "these answers were as the real ones; make members-compare shows how"
    assert sorted(known - differing) == [], "these answers are as the real ones now: take them out of differing.json"
