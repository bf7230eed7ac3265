"""The summary of the end-to-end suite: what a report says of each spec, and what stays from earlier runs."""

from __future__ import annotations

from typing import Any

from tests.e2e.summary import Spec, document, merged, of_document, of_report


def entry(text: str, state: str = "passed", **more: Any) -> dict[str, Any]:
    place = {"FileName": "/go/test/e2e/a_test.go"}
    return {
        "LeafNodeType": "It",
        "LeafNodeText": text,
        "LeafNodeLocation": place,
        "ContainerHierarchyTexts": ["outer"],
        "State": state,
        "RunTime": 1_500_000_000,
        **more,
    }


def test_a_report_has_the_specs_that_ran_and_the_reason_of_a_failure() -> None:
    entries = [
        entry("works"),
        entry("fails", "failed", Failure={"Message": "timed\nout | after 60 s"}),
        entry("not selected", "skipped"),
        {**entry("setup"), "LeafNodeType": "BeforeSuite"},
    ]

    assert of_report([{"SpecReports": entries, "StartTime": "2026-03-14T15:09:26Z"}]) == [
        Spec("a_test.go", "outer fails", "failed", 1.5, "timed out / after 60 s", "2026-03-14"),
        Spec("a_test.go", "outer works", "passed", 1.5, ran="2026-03-14"),
    ]


def test_a_summary_is_read_as_it_was_written() -> None:
    specs = [Spec("a_test.go", "one", "passed", 2.0, ran="2026-03-14"), Spec("b_test.go", "two", "failed", 0.1, "why")]

    assert of_document(document(specs)) == specs
    assert "| a_test.go | 1 | 0 |" in document(specs)


def test_a_later_run_replaces_results_and_keeps_the_notes_of_what_still_fails() -> None:
    before = [
        Spec("a", "one", "failed", 1.0, "on purpose"),
        Spec("a", "two", "failed", 1.0, "known"),
        Spec("b", "x", "passed", 1),
    ]
    after = [Spec("a", "one", "failed", 2.0, "timed out"), Spec("a", "two", "passed", 2.0)]

    assert merged(before, after) == [
        Spec("a", "one", "failed", 2.0, "on purpose"),
        Spec("a", "two", "passed", 2.0),
        Spec("b", "x", "passed", 1),
    ]
