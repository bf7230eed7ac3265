"""Which bindings have to be decided again when the rules of users for a kind change [resource-interpreter]."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from controlplane.apimachinery.meta import Ref
from controlplane.engine.controller import cursor_after, page
from controlplane.engine.state import State, Watch
from controlplane.kinds import BINDINGS, INTERPRETER_CUSTOMIZATION, INTERPRETER_WEBHOOKS
from controlplane.kinds.binding import Binding
from controlplane.kinds.interpreter_customization import InterpreterCustomization
from controlplane.kinds.interpreter_webhook import ALL, InterpreterWebhooks
from controlplane.propagation import bindings

TEMPLATES: Final = "templates|"


def is_rules(origin: Ref) -> bool:
    """Test whether a fan-out starts from changed rules. The name of its origin is the key of the interpreted kind, or
    *."""
    return origin.kind == INTERPRETER_CUSTOMIZATION


def bindings_of_kind(state: State, origin: Ref, *, after: str, limit: int) -> tuple[list[Binding], str | None]:
    """Return one page of the bindings whose template is of the kind of `origin`, and the next cursor.

    They are found by their templates, because a kind may have ten objects in a fleet of 100,000 bindings. The cursor is
    "templates|namespace/name". One of an earlier version begins with a number, and the search begins again.
    A page may have fewer bindings than `limit`.
    """
    if origin.name == ALL:
        return all_bindings(state, after=after, limit=limit)
    begin = after.removeprefix(TEMPLATES) if after.startswith(TEMPLATES) else ""
    templates = state.list(origin.name, after=cursor_after(begin), limit=limit, unopened=True)
    refs, following = page([template.ref for template in templates], limit=limit)
    found: dict[Ref, Binding] = state.get([bindings.binding_ref(ref) for ref in refs]) if refs else {}
    of_kind = [binding for binding in found.values() if bindings.template_ref(binding).kind == origin.name]
    return of_kind, None if following is None else f"{TEMPLATES}{following}"


def all_bindings(state: State, *, after: str, limit: int) -> tuple[list[Binding], str | None]:
    """Return one page of all bindings. The cursor is "number of the kind of bindings|namespace/name"."""
    number, _, cursor = after.partition("|")
    position = int(number or 0)
    listed = state.list(BINDINGS[position], after=cursor_after(cursor), limit=limit)
    _, following = page([binding.ref for binding in listed], limit=limit)
    if following is not None:
        return list(listed), f"{position}|{following}"
    return list(listed), f"{position + 1}|" if position + 1 < len(BINDINGS) else None


def _customization_changed(old: InterpreterCustomization | None, new: InterpreterCustomization | None) -> Iterator[Ref]:
    """The objects of the target kind are due when a customization was created, edited or deleted."""
    if old is None or new is None or old.spec != new.spec:
        yield from dict.fromkeys(
            Ref(INTERPRETER_CUSTOMIZATION, "", side.target_key) for side in (old, new) if side is not None
        )


def _webhooks_changed(old: InterpreterWebhooks | None, new: InterpreterWebhooks | None) -> Iterator[Ref]:
    """The objects of all kinds that a configuration names are due when it was created, edited or deleted."""
    if old is None or new is None or old.webhooks != new.webhooks:
        yield from dict.fromkeys(
            Ref(INTERPRETER_CUSTOMIZATION, "", key)
            for side in (old, new)
            if side is not None
            for key in _kinds_of(side)
        )


def _kinds_of(configuration: InterpreterWebhooks) -> Iterator[str]:
    for webhook in configuration.webhooks:
        for rule in webhook.rules:
            if ALL in (*rule.api_groups, *rule.kinds):
                yield ALL
            else:
                yield from (f"{group}/{kind}" if group else kind for group in rule.api_groups for kind in rule.kinds)


RULES_CHANGED: Final = (
    Watch(INTERPRETER_CUSTOMIZATION, _customization_changed, fan_out=True),
    Watch(INTERPRETER_WEBHOOKS, _webhooks_changed, fan_out=True),
)
"""The watches of controllers that interpret objects."""
