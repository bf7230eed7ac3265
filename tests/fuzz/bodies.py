"""Bodies: documents as JSON, YAML and protobuf, patches of each type, whole, changed and cut off."""

from __future__ import annotations

import base64
import gzip
import json
import random
import zlib
from functools import cache
from pathlib import Path
from typing import Any

import orjson
import yaml

from controlplane.kind import Kind
from controlplane.wire.protobuf import MAGIC, MEDIA_TYPE
from tests.api.written import SPECS
from tests.api.wrong_types import APPLY, JSON_PATCH, MERGE_PATCH
from tests.built_in.requests import bases
from tests.fuzz import values

Document = dict[str, Any]

STRATEGIC = "application/strategic-merge-patch+json"
PATCHES = (MERGE_PATCH, JSON_PATCH, STRATEGIC, APPLY)
TYPES = ("application/json", "application/yaml", MEDIA_TYPE)
ODD_TYPES = (
    *(
        "",
        "text/plain",
        "application/json; charset=utf-16",
        "application/json;charset=x",
        "multipart/form-data",
        "*/*",
        ";",
    ),
    *(
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
        "application/cbor",
        "application/json,a/b",
    ),
    "application/apply-patch+cbor",
)
_RECORDED = Path(__file__).parents[1] / "wire_data" / "created.json.gz"


@cache
def recorded() -> list[bytes]:
    """Return bodies that kubectl sent as protobuf."""
    return [base64.b64decode(one["body"]) for one in orjson.loads(gzip.decompress(_RECORDED.read_bytes()))]


@cache
def known(key: str) -> list[Document]:
    """Return valid documents of a kind; few kinds have none but their name."""
    found = [{"spec": spec} for kind, spec in SPECS if kind == key]
    found += [base.document for base in bases().values() if _key(base.document) == key]
    return found or [{}]


def _key(document: Document) -> str:
    group, _, _ = document["apiVersion"].rpartition("/")
    return f"{group}/{document['kind']}" if group else str(document["kind"])


def document(chance: random.Random, kind: Kind, namespace: str, name: str) -> Document:
    """Return a document of a kind, often with changes."""
    resource = kind.resource
    base = chance.choice(known(kind.key))
    metadata: Document = {key: value for key, value in base.get("metadata", {}).items() if key != "namespace"}
    metadata |= {"name": name} | ({"namespace": namespace} if resource.namespaced and chance.random() < 0.5 else {})
    if chance.random() < 0.3:
        metadata["labels"] = {"app": chance.choice(values.TEXTS)}
    head = {"apiVersion": resource.api_version, "kind": resource.kind}
    made = {**base, **head, "metadata": metadata}
    if chance.random() < 0.3:
        return made
    changed: Document = values.bent(chance, made, chance.randint(1, 3))
    return {**changed, **head} if chance.random() < 0.9 else changed  # another kind is refused before all else


def whole(kind: Kind, namespace: str, name: str) -> Document:
    """Return a valid document of a kind."""
    resource, base = kind.resource, known(kind.key)[0]
    place = {"namespace": namespace} if resource.namespaced else {}
    metadata = {**base.get("metadata", {}), "name": name} | place
    return {**base, "apiVersion": resource.api_version, "kind": resource.kind, "metadata": metadata}


def encoded(chance: random.Random, content: Any) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a document."""
    kind = chance.choices(TYPES, (6, 2, 1))[0]
    if kind == MEDIA_TYPE:
        return kind, damaged(chance, _protobuf(chance, content))
    if kind == "application/yaml":
        text = (
            yaml.safe_dump(content, allow_unicode=chance.random() < 0.5) if chance.random() < 0.9 else _odd_yaml(chance)
        )
        return kind, damaged(chance, text.encode(errors="surrogatepass"))
    return kind, damaged(chance, json_of(content))


def json_of(content: Any) -> bytes:
    return json.dumps(content, ensure_ascii=True).encode()


def _protobuf(chance: random.Random, content: Any) -> bytes:
    if chance.random() < 0.7:
        return chance.choice(recorded())
    raw = json_of(content)
    return MAGIC + b"\x12" + _varint(len(raw)) + raw + b"\x22\x10application/json"


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


def _odd_yaml(chance: random.Random) -> str:
    return chance.choice(
        (
            "a: &a [*a]",
            "a: &a {b: *a}",
            "? [a]\n: b",
            "!!python/object/apply:os.getcwd []",
            "a: 2001-01-01",
            "a: !!binary x",
            "<<: 1",
            "<<: {a: 1}\nkind: x",
            "--- a\n--- b",
            "1: 2\ntrue: 3\nnull: 4",
            "a: .inf\nb: .nan\nc: 0o7\nd: 1_000\ne: 12:30:45",
            "%YAML 9.9\n--- a",
            "a: 'x",
            "\t a",
            "[" * 200,
            "x: &x [a,a,a,a]\ny: &y [*x,*x,*x,*x]\nz: &z [*y,*y,*y,*y]\nw: [*z,*z,*z,*z]",
        )
    )


def damaged(chance: random.Random, body: bytes) -> bytes:
    """Return a body that is seldom cut off or has changed bytes."""
    if not body or chance.random() < 0.96:
        return body
    at = chance.randrange(len(body))
    return chance.choice((body[:at], body[:at] + chance.randbytes(3) + body[at:], body[at:], chance.randbytes(40), b""))


def packed(chance: random.Random, body: bytes) -> tuple[str, bytes]:
    """Return a Content-Encoding and a body that mostly has it."""
    whole = gzip.compress(body, mtime=0)
    return chance.choice(
        (
            ("gzip", whole),
            ("gzip", whole),
            ("x-gzip", whole),
            ("gzip", whole[:-4]),
            ("gzip", whole + b"more"),
            ("gzip", body),
            ("gzip", b"\x1f\x8b"),
            ("gzip", gzip.compress(bytes(4 << 20), mtime=0)),
            ("deflate", zlib.compress(body)),
            ("gzip, gzip", whole),
            ("br", body),
            ("identity", body),
        )
    )


def patch(chance: random.Random, kind: Kind, namespace: str, name: str) -> tuple[str, bytes]:
    """Return the Content-Type and the bytes of a patch."""
    media, given = chance.choice(PATCHES), document(chance, kind, namespace, name)
    content: Any = given
    if media == JSON_PATCH:
        content = [_operation(chance, given) for _ in range(chance.randrange(4))]
        content = content if chance.random() < 0.9 else values.value(chance)
    elif media != APPLY and chance.random() < 0.7:
        parts = chance.sample(sorted(given, key=str), min(len(given), chance.randint(1, 2)))
        content = {part: given[part] for part in parts}
        if media == STRATEGIC and chance.random() < 0.3:
            content = {
                **content,
                chance.choice(
                    ("$patch", "$setElementOrder/a", "$deleteFromPrimitiveList/b", "$retainKeys")
                ): values.value(chance),
            }
    elif chance.random() < 0.1:
        content = values.value(chance)
    if media == APPLY and chance.random() < 0.5:
        return media, damaged(chance, yaml.safe_dump(content).encode(errors="surrogatepass"))
    return media, damaged(chance, json_of(content))


def _operation(chance: random.Random, document_: Document) -> Any:
    pointers = [
        "",
        "/",
        "/-",
        "/metadata/labels",
        "/spec",
        "/data/a~1b",
        "/a~2",
        "/spec/-",
        "/metadata/name",
        "/x/0/01",
        "x",
    ]
    pointers += [f"/{part}" for part in document_]
    operation = {
        "op": chance.choice(("add", "remove", "replace", "move", "copy", "test", "x")),
        "path": chance.choice(pointers),
        "from": chance.choice(pointers),
        "value": values.value(chance),
    }
    return operation if chance.random() < 0.8 else values.bent(chance, operation, 2)
