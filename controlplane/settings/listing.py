"""Every setting as a row, for documents, `kubectl explain` and the readers of the environment."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, NamedTuple, get_args, get_origin

import msgspec
from msgspec import Meta

from controlplane.settings import READ_AT_START, Settings


class Setting(NamedTuple):
    """One setting, with what documentation and readers of the environment need of it."""

    name: str  # in Python and in documents, for example eviction.ageing_seconds
    path: tuple[str, ...]  # in a FailoverConfiguration, for example ("eviction", "ageingSeconds")
    type: Any  # with its limits, without the description
    default: Any
    description: str
    read_at_start: bool  # True: a FailoverConfiguration cannot override it


def all_settings() -> Iterator[Setting]:
    """Yield every setting, in the order of documents. Groups such as `eviction` are yielded setting by setting."""
    defaults = Settings()
    for field in msgspec.structs.fields(Settings):
        value, at_start = getattr(defaults, field.name), field.name in READ_AT_START
        if not isinstance(value, msgspec.Struct):
            yield Setting(field.name, (field.encode_name,), *_parts(field.type, value), at_start)
            continue
        for inner in msgspec.structs.fields(type(value)):
            name, path = f"{field.name}.{inner.name}", (field.encode_name, inner.encode_name)
            yield Setting(name, path, *_parts(inner.type, getattr(value, inner.name)), at_start)


def _parts(annotated: Any, default: Any) -> tuple[Any, Any, str]:
    """Return the type without its description, the default, and the description."""
    assert get_origin(annotated) is Annotated, f"{annotated} has no description"
    bare, *metas = get_args(annotated)
    (description,) = (meta.description for meta in metas if meta.description is not None)
    limits = [Meta(ge=meta.ge, le=meta.le) for meta in metas if meta.ge is not None]
    return (Annotated[bare, limits[0]] if limits else bare), default, description
