"""Golden vectors: does this system do what the original was seen doing?

Run ``python -m tests.conformance`` (or ``make conformance``). It reads ``<area>.jsonl`` or ``<area>.jsonl.gz`` from
this folder, or from the folder ``CONFORMANCE_VECTORS`` names; ``CONFORMANCE_AREAS=quantity,names`` narrows it.

How to add an area: put the vectors into this folder, write ``areas/<area>.py`` and enter it into ``AREAS`` of
``areas/__init__.py``. The module has

* ``run(input) -> result``: call the product with one vector's input; an error the product foresees is a result too;
* ``agree(expect, result) -> bool``: whether the result is what was recorded (``compare.equivalent`` ignores the
  difference between absent, null, zero and empty);
* optionally ``differs(input, expect, result) -> str | None``: asked only where they do not agree. Returns the reason
  where Lifeboat differs on purpose: recognised by what the vector says, never by its id, and as narrowly as possible.
"""
