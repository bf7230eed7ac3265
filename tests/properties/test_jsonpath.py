from __future__ import annotations

import json
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

from controlplane.apimachinery.jsonpath import JSONPathError, evaluate

keys = st.text("abc", min_size=1, max_size=2)
documents: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-3, 3) | st.text("ab ", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=12,
)
signs = [*"{}[]().*@$ab'\"\\0:<,? ", "..", "range ", "end", "-1", "==", "1.5", "true", "[?(@.a", ")]", "{.a"]
templates = st.lists(st.sampled_from(signs), max_size=14).map("".join)


@given(templates, documents)
@example("{range .a[*]}{end", {"a": [1]})
def test_every_template_gives_text_or_a_refusal(template: str, document: Any) -> None:
    try:
        text = evaluate(template, document)
    except JSONPathError:
        return

    assert evaluate(template, document) == text


@given(documents.filter(lambda document: isinstance(document, dict | list)))
def test_a_whole_document_is_printed_as_json(document: Any) -> None:
    assert json.loads(evaluate("{@}", document)) == document
