"""References to container images: registry, repository, and tag or digest.

The grammar is that of the container registries: `registry.example:5000/team/app:v1`, `team/app@sha256:…`.
"""

from __future__ import annotations

import re
from typing import Final

from controlplane.apimachinery.meta import Struct

_PATH_PART: Final = r"[a-z0-9]+(?:(?:[._]|__|-+)[a-z0-9]+)*"
_PATH: Final = rf"{_PATH_PART}(?:/{_PATH_PART})*"
_HOST_PART: Final = r"(?:[a-zA-Z0-9]|[a-zA-Z0-9][a-zA-Z0-9-]*[a-zA-Z0-9])"
_HOST: Final = rf"(?:{_HOST_PART}(?:\.{_HOST_PART})*|\[[a-fA-F0-9:]+\])(?::[0-9]+)?"
_TAG: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]{0,127}")
_DIGEST: Final = re.compile(r"[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}")
_REFERENCE: Final = re.compile(
    rf"(?P<name>(?:{_HOST}/)?{_PATH})(?::(?P<tag>{_TAG.pattern}))?(?:@(?P<digest>{_DIGEST.pattern}))?"
)
_NAME: Final = re.compile(rf"(?:(?P<host>{_HOST})/)?(?P<path>{_PATH})")
_DIGEST_LENGTHS: Final = {"sha256": 64, "sha384": 96, "sha512": 128}
_MAX_PATH: Final = 255


class ImageError(ValueError):
    """The text is no reference to an image. The message says what is wrong, and does not contain the text."""


class ImageReference(Struct, frozen=True):
    """A reference to an image. A tag hides the digest, as container runtimes of Kubernetes do not need both."""

    registry: str
    repository: str
    tag: str = ""
    digest: str = ""

    @classmethod
    def parse(cls, text: str) -> ImageReference:
        """Return the parts of a reference. Raises ImageError for a text that is no reference.

        What stands before the first slash is the registry if it has a dot, a colon or an uppercase letter, or is
        "localhost". Otherwise it belongs to the repository: "library/nginx" has no registry.
        """
        match = _REFERENCE.fullmatch(text)
        if match is None or not _is_digest(match["digest"] or ""):
            raise ImageError("is not an image such as registry.example/team/app:v1")
        name = _NAME.fullmatch(match["name"])
        if name is None or len(name["path"]) > _MAX_PATH:
            raise ImageError(f"has a repository of more than {_MAX_PATH} characters")
        registry, slash, repository = match["name"].partition("/")
        if not slash or not _is_registry(registry):
            registry, repository = "", match["name"]
        tag = match["tag"] or ""
        return cls(registry, repository, tag, "" if tag else match["digest"] or "")

    def __str__(self) -> str:
        repository = f"{self.registry}/{self.repository}" if self.registry else self.repository
        if self.tag:
            return f"{repository}:{self.tag}"
        return f"{repository}@{self.digest}" if self.digest else repository

    @property
    def version(self) -> str:
        """The tag, or the digest if there is no tag."""
        return self.tag or self.digest

    def with_version(self, text: str) -> ImageReference:
        """Return the reference with a tag or a digest. A text that is neither changes nothing."""
        if _TAG.fullmatch(text):
            return ImageReference(self.registry, self.repository, text)
        if _DIGEST.fullmatch(text):
            return ImageReference(self.registry, self.repository, "", text)
        return self

    def without_version(self) -> ImageReference:
        """Return the reference without its tag, or without its digest if it has no tag."""
        return ImageReference(self.registry, self.repository, "", self.digest if self.tag else "")


def _is_registry(text: str) -> bool:
    return "." in text or ":" in text or text == "localhost" or text != text.lower()


def _is_digest(text: str) -> bool:
    """Test whether a digest is of a known algorithm and has the length of it; "" is no digest and passes."""
    algorithm, _, value = text.partition(":")
    return not text or (_DIGEST_LENGTHS.get(algorithm) == len(value) and value == value.lower())
