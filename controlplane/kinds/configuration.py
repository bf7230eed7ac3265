"""FailoverConfiguration (failover.lifeboat.io/v1alpha1): settings that change at run time; one object, `default`."""

from __future__ import annotations

from typing import Any

from controlplane.meta import Object

NAME = "default"


class FailoverConfiguration(Object, frozen=True):
    """`spec` holds only what is overridden, in camelCase; `settings.with_overrides` checks and applies it."""

    spec: dict[str, Any] = {}
