"""How a kind is declared, and the registry of all kinds.

Storage, API, admin and schema read the declaration. Documents are encoded and decoded here as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import msgspec

from controlplane.apimachinery.as_written import plain
from controlplane.apimachinery.errors import Cause
from controlplane.apimachinery.meta import Object, Ref, kind_key
from controlplane.settings import Settings
from controlplane.wire.resource import Resource
from controlplane.wire.schema import Schema

# Stands for the resourceVersion in a document that is encoded before its version is known.
_VERSION_SLOT = b'"resourceVersion":"@"'
_SLOT_METADATA = "@"


class Index(msgspec.Struct, frozen=True):
    """A named index of the objects of a kind. `keys(object)` returns the values under which an object is found.

    `reader` says which controllers or apps look up what in the index.
    """

    name: str
    keys: Callable[[Any], Iterable[str]]
    reader: str


class Kind(msgspec.Struct, frozen=True, kw_only=True):
    """The declaration of a kind of objects.

    A write passes the functions in this order. `old` is the stored object, None while the object is created.

    - `checked_schema` is the schema that a document is checked against. None: `schema`. It requires fewer fields where
      `validate` says more about a missing field.
    - `normalise(document)` changes deprecated spellings in the plain document and returns warnings about them.
    - `fill(document)` returns the document with the defaults of its schema.
    - `default(new, old, settings)` returns the typed object with the remaining defaults.
    - `validate(new, old, settings)` returns every cause to refuse the object. `validate_status(new)` does so for a
      write of the status alone.
    - `warn(new, old, settings)` returns warnings about an object that is accepted. They become Warning headers.

    `table` is the Django model that stores the objects ("app.Model"). With `has_status` and the subresource "status" of
    `resource`, the status is written by itself: other writes leave it as it is.
    """

    resource: Resource
    type: type[Object]
    table: str = "objects.Object"
    schema: Callable[[], Schema] = lambda: Schema.OPEN
    checked_schema: Callable[[], Schema] | None = None
    normalise: Callable[[dict[str, Any]], list[str]] = lambda doc: []
    fill: Callable[[dict[str, Any]], dict[str, Any]] = lambda doc: doc
    default: Callable[[Any, Any, Settings], Any] = lambda new, old, settings: new
    validate: Callable[[Any, Any, Settings], list[Cause]] = lambda new, old, settings: []
    validate_status: Callable[[Any], list[Cause]] = lambda new: []
    warn: Callable[[Any, Any, Settings], list[str]] = lambda new, old, settings: []
    indexes: tuple[Index, ...] = ()
    has_generation: bool = True
    has_status: bool = True
    initial_status: Callable[[dict[str, Any]], dict[str, Any]] = lambda spec: {}  # of a new object, for templates
    audited: bool = True  # False: the audit page does not list the objects (Events, which are derived)
    versions: tuple[Kind, ...] = ()  # the same kind in its other served versions
    is_served: bool = True  # False: its own version is stored and not served
    converts: bool = False  # True: objects may be stored in other versions than this
    conversion: dict[str, Any] | None = None  # the webhook of its definition; None: only the apiVersion differs
    convert: Callable[[dict[str, Any], str], dict[str, Any]] | None = None  # to another apiVersion, of a built-in kind
    is_edited: bool = False  # True: its definition was changed, so objects may be stored as it was before
    stored_as: str = ""  # the key under which its objects are stored; "": its own
    is_ending: bool = False  # True: its CustomResourceDefinition is being deleted, so no objects can be created

    @property
    def key(self) -> str:
        return self.stored_as or self.resource.key

    @property
    def is_shown_as_stored(self) -> bool:
        """Whether each object is shown as it is stored. Otherwise `apps.objects.versions` shows it."""
        return not (self.converts or self.is_edited)

    def schema_to_check(self) -> Schema:
        """Return the schema that documents of users are checked against."""
        return self.schema() if self.checked_schema is None else self.checked_schema()

    def index_values(self, obj: Object, name: str) -> list[str]:
        """Return the values under which an object is found in an index. Raises KeyError for an unknown index."""
        for index in self.indexes:
            if index.name == name:
                return list(index.keys(obj))
        raise KeyError(f"{self.key} has no index {name}")

    def ref(self, namespace: str, name: str) -> Ref:
        """Return the reference to an object of the kind. The namespace is ignored for a cluster-scoped kind."""
        return Ref(self.key, namespace if self.resource.namespaced else "", name)


class Kinds:
    """The registry of kinds: declared kinds, registered when `controlplane.kinds` is imported, and custom kinds.

    Custom kinds come from the CustomResourceDefinitions of users. They are replaced as a whole, so that a reader in
    another thread sees either all old kinds or all new kinds. `revision` increases with every replacement.
    """

    def __init__(self) -> None:
        self._declared: dict[str, Kind] = {}
        self._by_key: dict[str, Kind] = {}
        self._by_plural: dict[tuple[str, str], Kind] = {}
        self.revision = 0

    def register(self, kind: Kind) -> Kind:
        """Add a declared kind. Raises AssertionError if its key is registered already."""
        assert kind.key not in self._declared, f"{kind.key} is declared twice"
        for registry in (self._declared, self._by_key):
            registry[kind.key] = kind
        self._by_plural |= _plurals(kind)
        return kind

    def set_custom(self, kinds: Iterable[Kind]) -> None:
        """Replace the custom kinds. A kind is left out if a declared or an earlier kind has its key or plural."""
        by_plural = {plural: kind for kind in self._declared.values() for plural in _plurals(kind)}
        custom: dict[str, Kind] = {}
        for kind in kinds:
            plural = kind.resource.group, kind.resource.plural
            if kind.key not in self._declared and kind.key not in custom and plural not in by_plural:
                custom[kind.key] = by_plural[plural] = kind
        self._by_key, self._by_plural = {**self._declared, **custom}, by_plural
        self.revision += 1

    def is_custom(self, kind: Kind) -> bool:
        """Test whether a kind comes from a CustomResourceDefinition of a user."""
        return kind.key not in self._declared

    def __getitem__(self, key: str) -> Kind:
        return self._by_key[key]

    def get(self, key: str) -> Kind | None:
        return self._by_key.get(key)

    def served(self, group: str, version: str, plural: str) -> Kind | None:
        """Return the kind that is served under /apis/<group>/<version>/<plural>; None: no kind is served there."""
        kind = self._by_plural.get((group, plural))
        if kind is None:
            return None
        asked = group, version
        if kind.is_served and (kind.resource.group, kind.resource.version) == asked:
            return kind
        return next((one for one in kind.versions if (one.resource.group, one.resource.version) == asked), None)

    def of_version(self, api_version: str, name: str) -> Kind | None:
        """Return the kind with a name in the version of an apiVersion; None: it is not served in that version."""
        home = self.get(kind_key(api_version, name))
        served = () if home is None else (*((home,) if home.is_served else ()), *home.versions)
        return next((kind for kind in served if kind.resource.api_version == api_version), None)

    def served_kinds(self) -> Iterator[Kind]:
        """Yield all kinds in each of their served versions."""
        for kind in self:
            if kind.is_served:
                yield kind
            yield from kind.versions

    def __iter__(self) -> Iterator[Kind]:
        return iter(self._by_key.values())

    def __contains__(self, key: str) -> bool:
        return key in self._by_key


def _plurals(kind: Kind) -> dict[tuple[str, str], Kind]:
    """Return the kind under each (group, plural) at which it is served. Its versions may have different groups."""
    return {(one.resource.group, one.resource.plural): kind for one in (*kind.versions, kind)}


KINDS = Kinds()

_encoder = msgspec.json.Encoder(enc_hook=plain)
_decoders: dict[type, msgspec.json.Decoder[Any]] = {}


class Encoded(msgspec.Struct, frozen=True):
    """An encoded document without its resourceVersion: the text before it and the text after it.

    So `apply` can encode documents before it takes the global write lock, in which it gets their versions.
    """

    head: bytes
    tail: bytes

    def at(self, version: int) -> bytes:
        """Return the text of the document with a resourceVersion."""
        return b'%s"resourceVersion":"%d"%s' % (self.head, version, self.tail)


def encode(obj: Object) -> Encoded:
    """Return an object as JSON text that still lacks its resourceVersion."""
    slotted = msgspec.structs.replace(
        obj, metadata=msgspec.structs.replace(obj.metadata, resource_version=_SLOT_METADATA)
    )
    head, _, tail = _encoder.encode(to_wire(slotted)).partition(_VERSION_SLOT)
    return Encoded(head, tail)


def text_of(obj: Object) -> bytes:
    """Return an object as JSON text with the resourceVersion it has."""
    return _encoder.encode(to_wire(obj))


def to_wire(obj: Object) -> Any:
    """Return the value for the JSON encoder: a typed object as it is, a template as its whole document."""
    unfold = getattr(obj, "unfold", None)
    return obj if unfold is None else unfold()


def decode(kind: Kind, text: bytes | str) -> Any:
    """Return the typed object of a stored document. Raises msgspec.ValidationError if it is not of the kind."""
    fold = getattr(kind.type, "fold", None)
    if fold is not None:
        return fold(msgspec.json.decode(text))
    decoder = _decoders.get(kind.type)
    if decoder is None:
        decoder = _decoders[kind.type] = msgspec.json.Decoder(kind.type)
    return decoder.decode(text)
