"""Built-in kinds in a second version. One object is stored, and both versions read and write it [built-in-versions]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import orjson
from msgspec.structs import replace

from controlplane.apimachinery.errors import Cause
from controlplane.kind import Kind, decode, text_of
from controlplane.kinds.template import Template
from controlplane.kube import walk
from controlplane.settings import Settings
from controlplane.wire import builtin
from controlplane.wire.resource import Resource

Document = dict[str, Any]
Convert = Callable[[Document, str], Document]
More = Callable[[Document, Document | None], list[Cause]]


def also_served(home: Kind, resource: Resource, convert: Convert, more: More = lambda new, old: []) -> Kind:
    """Return a kind that is stored as before and served as `resource` too.

    Defaults and rules are those of the stored version, as in Kubernetes. `more`: rules for writes through `resource`.
    """

    def stored(obj: Any) -> Any:
        made = convert(orjson.loads(text_of(obj)), home.resource.api_version)
        return decode(home, orjson.dumps(made))

    def default(new: Any, old: Any, settings: Settings) -> Any:
        made, was = stored(new), None if old is None else stored(old)
        if home.has_status:  # annotations of the other version may stand for parts of it, which a write leaves
            made = replace(made, status={} if was is None else was.status)
        filled = home.default(made, was, settings)
        return Template.fold(convert(orjson.loads(text_of(filled)), resource.api_version))

    def validate(new: Any, old: Any, settings: Settings) -> list[Cause]:
        made, was = stored(new), None if old is None else stored(old)
        known = None if was is None else orjson.loads(text_of(was))
        return [*home.validate(made, was, settings), *more(orjson.loads(text_of(made)), known)]

    def warn(new: Any, old: Any, settings: Settings) -> list[str]:
        return home.warn(stored(new), None if old is None else stored(old), settings)

    other = Kind(
        resource=resource,
        type=Template,
        table=home.table,
        schema=lambda: builtin.schema(resource.group, resource.version, resource.kind),
        checked_schema=lambda: walk.checked_schema(resource.group, resource.version, resource.kind),
        default=default,
        validate=validate,
        warn=warn,
        has_generation=home.has_generation,
        has_status=home.has_status,
        audited=home.audited,
        converts=True,
        stored_as=home.key,
    )
    return replace(home, versions=(other,), convert=convert)
