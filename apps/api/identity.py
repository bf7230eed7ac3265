"""Users who have no row in Django's table: impersonated users and service accounts."""

from __future__ import annotations

from controlplane.authorization.attributes import ADMINISTRATORS, Caller


class Identity:
    """A user with the attributes that views ask Django's users for. All rights come from `caller`."""

    is_authenticated = True
    is_anonymous = False
    is_active = True
    is_staff = False
    pk: int | None = None

    def __init__(self, caller: Caller) -> None:
        self.caller = caller

    @property
    def is_superuser(self) -> bool:
        """Whether the user may do everything."""
        return ADMINISTRATORS in self.caller.groups

    def __str__(self) -> str:
        return self.caller.name

    def get_username(self) -> str:
        """Return the user's name."""
        return self.caller.name
