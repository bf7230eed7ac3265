"""How a kind is declared: once, here; storage, API, admin, schema and tests all read this declaration."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, Ref
from controlplane.settings import Settings
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema

# Stands for the resourceVersion while a document is encoded before the version is known.
_VERSION_SLOT = b'"resourceVersion":"@"'
_SLOT_METADATA = "@"


class Index(msgspec.Struct, frozen=True):
    """A named way to find objects: `keys(object)` gives the values it is found under, `reader` says who asks."""

    name: str
    keys: Callable[[Any], Iterable[str]]
    reader: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """One kind of object.

    `default` fills what the user left out (it gets the old object on update), `validate` returns every cause at once
    (`validate_status` where only the status is written), `warn` what is accepted but worth a Warning header. `table` is
    the Django model that keeps it ("app.Model").
    `normalise` works on the plain document before it is typed (deprecated spellings), `fill` returns it with what its
    schema says of fields left out. `is_ending`: its definition is being deleted, nothing new of it is made.
    """

    resource: Resource
    type: type[Object]
    table: str = "objects.Object"
    schema: Callable[[], Schema] = lambda: Schema.OPEN
    normalise: Callable[[dict[str, Any]], list[str]] = lambda doc: []
    fill: Callable[[dict[str, Any]], dict[str, Any]] = lambda doc: doc
    default: Callable[[Any, Any, Settings], Any] = lambda new, old, settings: new
    validate: Callable[[Any, Any, Settings], list[Cause]] = lambda new, old, settings: []
    validate_status: Callable[[Any], list[Cause]] = lambda new: []
    warn: Callable[[Any, Any, Settings], list[str]] = lambda new, old, settings: []
    indexes: tuple[Index, ...] = ()
    has_generation: bool = True
    has_status: bool = True
    audited: bool = True  # False: derived chatter (Events) that the audit page leaves out
    is_ending: bool = False

    @property
    def key(self) -> str:
        return self.resource.key

    def values(self, obj: Object, index: str) -> list[str]:
        """Return the values an object is found under in an index. Raises KeyError for no such index."""
        for one in self.indexes:
            if one.name == index:
                return list(one.keys(obj))
        raise KeyError(f"{self.key} has no index {index}")

    def ref(self, namespace: str, name: str) -> Ref:
        return Ref(self.key, namespace if self.resource.namespaced else "", name)


class Kinds:
    """The registry: declared kinds, filled once at import of `controlplane.kinds`, and those users brought.

    What users bring (CustomResourceDefinitions) is replaced as a whole, so that a reader in another thread sees either
    the old or the new ones. `revision` rises with it.
    """

    def __init__(self) -> None:
        self._declared: dict[str, Kind] = {}
        self._by_key: dict[str, Kind] = {}
        self._by_plural: dict[tuple[str, str], Kind] = {}
        self.revision = 0

    def register(self, kind: Kind) -> Kind:
        """Add a kind. Raises AssertionError where its key is taken: a kind is declared once."""
        assert kind.key not in self._declared, f"{kind.key} is declared twice"
        for registry in (self._declared, self._by_key):
            registry[kind.key] = kind
        self._by_plural[kind.resource.group, kind.resource.plural] = kind
        return kind

    def bring(self, kinds: Iterable[Kind]) -> None:
        """Know exactly these kinds besides the declared ones, whose keys and plurals nobody takes over."""
        known = {(one.resource.group, one.resource.plural): one for one in self._declared.values()}
        brought: dict[str, Kind] = {}
        for kind in kinds:
            plural = kind.resource.group, kind.resource.plural
            if kind.key not in self._declared and kind.key not in brought and plural not in known:
                brought[kind.key] = known[plural] = kind
        self._by_key, self._by_plural = {**self._declared, **brought}, known
        self.revision += 1

    def is_brought(self, kind: Kind) -> bool:
        """Test whether users brought a kind."""
        return kind.key not in self._declared

    def __getitem__(self, key: str) -> Kind:
        return self._by_key[key]

    def get(self, key: str) -> Kind | None:
        return self._by_key.get(key)

    def served(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind served under /apis/<group>/<version>/<plural>, None where there is none."""
        kind = self._by_plural.get((group, plural))
        return kind if kind is not None and kind.resource.version == version else None

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_key.values())

    def __contains__(self, key: str) -> bool:
        return key in self._by_key


KINDS = Kinds()

_encoder = msgspec.json.Encoder(enc_hook=plain)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class Encoded(msgspec.Struct, frozen=True):
    """A document with a hole where the resourceVersion goes, so that it can be encoded before the version is taken."""

    head: bytes
    tail: bytes

    def at(self, version: int) -> bytes:
        """Return the document's text at that resourceVersion."""
        return b'%s"resourceVersion":"%d"%s' % (self.head, version, self.tail)


def encode(obj: Object) -> Encoded:
    """Return the object as JSON text, ready for its version."""
    slotted = msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=_SLOT_METADATA)
    )
    head, _, tail = _encoder.encode(to_wire(slotted)).partition(_VERSION_SLOT)
    return Encoded(head, tail)


def text_of(obj: Object) -> bytes:
    """Return the object as JSON text at the version it has: what `encode` gives at that version."""
    return _encoder.encode(to_wire(obj))


def to_wire(obj: Object) -> Any:
    """Return what the JSON encoder shall see: typed objects as they are, templates with their content unfolded."""
    unfold = getattr(obj, "unfold", None)
    return obj if unfold is None else unfold()


def decode(kind: Kind, text: bytes | str) -> Any:
    """Return the typed object of a stored document. Raises msgspec.ValidationError where it is not of the kind."""
    fold = getattr(kind.type, "fold", None)
    if fold is not None:
        return fold(msgspec.json.decode(text))
    decoder = _decoders.get(kind.type)
    if decoder is None:
        decoder = _decoders[kind.type] = msgspec.json.Decoder(kind.type)
    return decoder.decode(text)
