"""Users of an OpenID provider as users of Django, which browsers' sessions need."""

from __future__ import annotations

import hashlib
from collections.abc import Collection
from typing import Any

from django.conf import settings
from django.contrib.auth import get_user_model
from django.contrib.auth.models import Group
from django.db import IntegrityError, transaction

from apps.api.models import ProviderUser
from controlplane.authorization.attributes import AUTHENTICATED, Caller

LONGEST = 150  # characters of a name of Django's users and groups
_COLONS = 3  # in the key of a login with a token of the provider: until:SECONDS:TOKEN:SUBJECT


class NotAllowed(Exception):
    """The user may not log in. The message says why."""


def user_of(caller: Caller) -> Any:
    """Return the user of a caller whom the provider has authenticated, with the groups that the provider names now.

    The provider knows the user by its subject (`caller.uid`). Raises NotAllowed if the name belongs to another user, or
    if the user is deactivated.
    """
    if not caller.uid or len(caller.name) > LONGEST:
        raise NotAllowed(f"the provider names no subject, or a name with more than {LONGEST} characters")
    try:
        with transaction.atomic():
            user = _stored(caller)
            user.groups.set([Group.objects.get_or_create(name=name)[0] for name in _groups(caller)])
    except IntegrityError:
        raise NotAllowed(
            f'the name "{caller.name}" belongs to another user here; an administrator has to rename that user'
        ) from None
    if not user.is_active:
        raise NotAllowed(f"the user {caller.name} is deactivated here")
    return user


def is_deactivated(subject: str) -> bool:
    """Test whether a user of the provider is known here and was deactivated: also a token is no login then."""
    return _deactivated().filter(subject=subject).exists()


def ended(keys: Collection[str]) -> set[str]:
    """Return which of these keys of logins with tokens are of users who were deactivated. One query; none for no keys.

    Keys of other logins are ignored.
    """
    subjects = {key: key.rpartition(":")[2] for key in keys if key.count(":") == _COLONS}
    if not subjects:
        return set()
    gone = {hashlib.sha256(one.encode()).hexdigest() for one in _deactivated().values_list("subject", flat=True)}
    return {key for key, subject in subjects.items() if subject in gone}


def _deactivated() -> Any:
    return ProviderUser.objects.filter(issuer=settings.OIDC_ISSUER, user__is_active=False)


def _stored(caller: Caller) -> Any:
    """Return the user, made at the first login and renamed if the provider has another name for it now."""
    known = ProviderUser.objects.select_related("user").filter(issuer=settings.OIDC_ISSUER, subject=caller.uid).first()
    if known is None:
        # Rights in the admin are those of RBAC; a member of the staff without roles sees nothing there.
        user = get_user_model().objects.create_user(caller.name, password=None, is_staff=True)
        ProviderUser.objects.create(user=user, issuer=settings.OIDC_ISSUER, subject=caller.uid)
        return user
    if known.user.get_username() != caller.name:
        known.user.username = caller.name
        known.user.save(update_fields=["username"])
    return known.user


def _groups(caller: Caller) -> list[str]:
    return [name for name in caller.groups if name != AUTHENTICATED and len(name) <= LONGEST]
