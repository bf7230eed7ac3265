"""Files of users: YAML or JSON, read as kubectl reads them. An error quotes nothing: a line may hold a secret."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.nodes import MappingNode, ScalarNode

from apps.command import exit_codes
from apps.command.errors import CommandError, usage
from controlplane.apimachinery.yaml_rules import key_text, problem, resolve_as_kubernetes


def documents(path: Path) -> list[Any]:
    """Return the documents of a file with the values that JSON has. A document without content is left out.

    Raises CommandError if there is no such file, or if it is no text of YAML or JSON.
    """
    try:
        found = [one for one in yaml.load_all(_text(path), Loader=_Loader) if one is not None]
        return [_plain(one, path, "", ()) for one in found]
    except yaml.YAMLError as error:
        raise usage(f"{path} is not valid YAML: {problem(error)}") from None
    except RecursionError:
        raise usage(f"{path} is nested too deeply") from None
    except (AttributeError, KeyError, TypeError, ValueError):  # raised by PyYAML if a value does not fit its tag
        raise usage(f"{path} is not valid YAML: a value does not fit the tag in front of it") from None


def document(path: Path) -> Any:
    """Return the only document of a file. Raises CommandError, also if it has none or several."""
    found = documents(path)
    if len(found) != 1:
        raise usage(f"{path} {'has several documents; give one' if found else 'is empty'}")
    return found[0]


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise CommandError(f"there is no file {path}", code=exit_codes.NOT_FOUND) from None
    except OSError as error:
        raise usage(f"{path} cannot be read: {error.strerror}") from None
    except UnicodeError:
        raise usage(f"{path} is no text in UTF-8") from None


class _Loader(yaml.SafeLoader):
    """YAML as Kubernetes reads it: times are texts, all keys are texts, and a key stands once in a mapping."""

    def construct_mapping(self, node: MappingNode, deep: bool = False) -> dict[Any, Any]:
        if not isinstance(node, MappingNode):
            raise ConstructorError(None, None, "a mapping was expected here", node.start_mark)
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, ScalarNode):
                raise ConstructorError(None, None, "keys must be plain texts", key.start_mark)
            if key.value in seen:
                raise ConstructorError(None, None, f"the key {key.value} is there twice", key.start_mark)
            seen.add(key.value)
        self.flatten_mapping(node)
        return {
            key_text(self.construct_object(key)): self.construct_object(value, deep=deep) for key, value in node.value
        }


resolve_as_kubernetes(_Loader)


def _plain(value: Any, path: Path, field: str, within: tuple[int, ...]) -> Any:
    """Return a value with copies in the place of aliases. Raises CommandError for what JSON does not know."""
    if id(value) in within:
        raise usage(f"{path}: {field}: an alias contains itself")
    inside = (*within, id(value))
    if isinstance(value, dict):
        return {key: _plain(inner, path, f"{field}.{key}".lstrip("."), inside) for key, inner in value.items()}
    if isinstance(value, list):
        return [_plain(inner, path, f"{field}[{index}]", inside) for index, inner in enumerate(value)]
    if not (value is None or isinstance(value, str | int | float)) or (
        isinstance(value, float) and not math.isfinite(value)
    ):
        raise usage(f"{path}: {field or 'it'}: JSON has no such value; write a text, a number, true, false or null")
    return value
