"""Answers that are none of a Kubernetes API, for example of a proxy before it, are an error with a message."""

from __future__ import annotations

from collections.abc import Iterator
from io import BytesIO
from typing import Any

import pytest
import urllib3

from apps.command import exit_codes
from apps.command.api import Api
from apps.command.errors import CommandError
from apps.command.kubeconfig import Access


class Pool:
    """Answers every request with the same text."""

    def __init__(self, text: str) -> None:
        self.text = text

    def request(self, method: str, url: str, *, preload_content: bool, **more: Any) -> urllib3.HTTPResponse:
        return urllib3.HTTPResponse(BytesIO(self.text.encode()), status=200, preload_content=preload_content)


def api(text: str) -> Api:
    return Api(Access("https://lifeboat", "default", Pool(text), lambda: ""), warn=print)


def asked(one: Api, how: str) -> Any:
    path = "/api/v1/namespaces"
    calls = {
        "get": lambda: one.get(path),
        "items": lambda: one.items(path),
        "post": lambda: one.post(path, {}),
        "watch": lambda: list[Any](_watch(one, path)),
    }
    return calls[how]()


def _watch(one: Api, path: str) -> Iterator[Any]:
    return one.watch(path, "shop", seconds=1)


@pytest.mark.parametrize("how", ["get", "items", "post", "watch"])
@pytest.mark.parametrize("text", ["[]\n", "null\n", '"log in first"\n', "<html>\n", "{\n"])
def test_an_answer_that_is_no_object_is_an_error_with_its_text(how: str, text: str) -> None:
    with pytest.raises(CommandError, match="does not answer as a Kubernetes API") as found:
        asked(api(text), how)

    assert found.value.code == exit_codes.UNREACHABLE
    assert text.strip() in found.value.message
