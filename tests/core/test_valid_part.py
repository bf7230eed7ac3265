"""The valid part of a document: what its schema does not allow is left out, so that other rules can be checked."""

from __future__ import annotations

import pytest

from controlplane.kinds import KINDS
from controlplane.wire.document_check import faults, valid_part


@pytest.mark.parametrize("name", ["1", "17", "a"])
def test_a_field_whose_name_is_a_number_is_removed_by_its_name(name: str) -> None:
    """The validator gives such a name as a number, as it gives the index of an item."""
    schema = KINDS["Secret"].schema_to_check()
    document = {"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "one"}, "data": {name: -1, "kept": "YQ=="}}

    rest = valid_part(document, schema)

    assert rest == {**document, "data": {"kept": "YQ=="}}
    assert document["data"] == {name: -1, "kept": "YQ=="}
    assert len(faults(document, schema)) == 1
