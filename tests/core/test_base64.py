"""Base64 as Kubernetes reads it: what is accepted is also what is understood."""

from __future__ import annotations

import pytest

from controlplane.apimachinery.base64 import decoded, is_base64
from controlplane.clusters.questions import endpoint_of
from tests.builders.objects import cluster
from tests.builders.templates import template


@pytest.mark.parametrize(
    ("text", "meant"),
    [("", b""), ("YWJj", b"abc"), ("YQ==", b"a"), ("YW\r\nJj\n", b"abc"), ("+/+/", b"\xfb\xff\xbf")],
)
def test_what_is_base64_is_read(text: str, meant: bytes) -> None:
    assert is_base64(text)
    assert decoded(text) == meant


@pytest.mark.parametrize(
    "text",
    ["YW", "YWJ", "YQ=", "YWJj=", "YWJj====", "====", "YQ==YQ==", "YW Jj", "-_-_", "Y", "\u00e9\u00e9\u00e9\u00e9"],
)
def test_what_is_none_is_refused(text: str) -> None:
    assert not is_base64(text)


def test_a_token_and_a_certificate_written_over_several_lines_are_used() -> None:
    """base64 breaks its output into lines, and manifests hold it as it comes."""
    member = cluster("member1").with_spec(api_endpoint="https://member1")
    secret = template("Secret", "member1", data={"token": "c2Vj\ncmV0\n", "caBundle": "UEVN\r\n"})

    target = endpoint_of(member, secret)

    assert (target.token, target.ca) == ("secret", "PEM")
