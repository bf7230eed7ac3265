"""YAML as Kubernetes reads it, and what is wrong with a text without quoting it: the line may hold a secret."""

from __future__ import annotations

import re
from typing import Any, Final

import yaml

_NUMBER_TAGS: Final = {  # integers first, because the pattern of floats matches them too
    "tag:yaml.org,2002:int": re.compile(
        r"^(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?(?:0|[1-9][0-9_]*)|[-+]?0x[0-9a-fA-F_]+)$"
    ),
    "tag:yaml.org,2002:float": re.compile(
        r"^(?:[-+]?(?:[0-9][0-9_]*)(?:\.[0-9_]*)?(?:[eE][-+]?[0-9]+)?|[-+]?\.[0-9][0-9_]*(?:[eE][-+]?[0-9]+)?"
        r"|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
    ),
}
_OURS: Final = frozenset((*_NUMBER_TAGS, "tag:yaml.org,2002:timestamp"))
_QUOTED: Final = re.compile(r" ?'(?!<)[^']{3,}'")  # not the tokens of YAML, such as '<scalar>', and not '\t'


def resolve_as_kubernetes(loader: Any) -> None:
    """Make a loader class read plain texts as Kubernetes does: no dates, no base-60 numbers, 1e3 is a number."""
    loader.yaml_implicit_resolvers = {
        first: [(tag, pattern) for tag, pattern in resolvers if tag not in _OURS]
        for first, resolvers in loader.yaml_implicit_resolvers.items()
    }
    for tag, pattern in _NUMBER_TAGS.items():
        loader.add_implicit_resolver(tag, pattern, list("-+.0123456789"))


def key_text(key: Any) -> str:
    """Return a key of a mapping as the text that it is in JSON."""
    if isinstance(key, bool):
        return "true" if key else "false"
    return "null" if key is None else str(key)


def problem(error: yaml.YAMLError) -> str:
    """Return what is wrong with a text of YAML, and where, without a word of it: an alias or a tag may be a secret."""
    if not isinstance(error, yaml.MarkedYAMLError):
        return "it has a character that YAML does not allow"
    mark = error.problem_mark or error.context_mark
    said = unquoted(error.problem or error.context or "it cannot be read")
    return f"line {mark.line + 1}, column {mark.column + 1}: {said}" if mark else said


def unquoted(said: str) -> str:
    """Return a message about a text of YAML without the words of the text that it quotes."""
    return _QUOTED.sub("", said)
