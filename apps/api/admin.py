"""Admin of logins: users, groups, bearer tokens, and users of an OpenID provider. `manage.py token create` shows a
token once."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from shlex import quote
from typing import Any, Final

from django.contrib import admin, messages
from django.contrib.auth import get_user_model
from django.contrib.auth.admin import GroupAdmin, UserAdmin
from django.contrib.auth.models import Group
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import reverse

from apps.api import tokens
from apps.api.models import ProviderUser, ServiceAccountToken, Token
from apps.objects.admin_guard import Question, confirmed
from apps.objects.preview import Preview
from apps.objects.rows_admin import RowAdmin

SHOWN: Final = 20  # names of tokens on the page that asks
REVOKED: Final = "Requests with them are refused from now on, and their watches end. This cannot be taken back."

log = logging.getLogger(__name__)


class ByAdministrators:
    """Pages that only administrators use to write. Permissions of Django let other staff look at them.

    Who writes users sets passwords, groups, and who is an administrator, so it is the right to everything
    [no-escalation].
    """

    def has_add_permission(self, request: HttpRequest) -> bool:
        return _is_administrator(request)

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_administrator(request)

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return _is_administrator(request)


def _is_administrator(request: HttpRequest) -> bool:
    return bool(request.user.is_active and request.user.is_superuser)


class OwnUserAdmin(ByAdministrators, UserAdmin):
    """Users."""


class OwnGroupAdmin(ByAdministrators, GroupAdmin):
    """Groups, which are groups of RBAC as well."""


class CredentialAdmin(RowAdmin):
    """Base of the pages of tokens: administrators have actions, which are confirmed with a reason."""

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Return the actions of administrators. For other staff there are none, also if they send the form."""
        return super().get_actions(request) if request.user.is_superuser else {}

    def confirmed(
        self, request: HttpRequest, chosen: Sequence[Any], verb: str, *, effect: str, command: str
    ) -> HttpResponse | str | None:
        """Return the reason of an action, or the page that asks for it; None: no token is chosen any more."""
        if not chosen:
            self.message_user(request, "None of the chosen tokens exists any more.", messages.WARNING)
            return None
        named, are = ", ".join(map(str, chosen[:SHOWN])), f"{len(chosen)} token{'' if len(chosen) == 1 else 's'}"
        more = f" and {len(chosen) - SHOWN} more" if len(chosen) > SHOWN else ""
        question = Question(
            title=f"{verb} {are}?",
            button=f"{verb} {'it' if len(chosen) == 1 else 'them'}",
            subject=verb.lower(),
            kubectl=command,
            program="a command",
            trial=Preview,
            facts=(f"{named}{more}.", effect),
            always=True,
            chosen=[str(token.pk) for token in chosen],
            keeper="log of the admin",
        )
        site = self.admin_site.each_context(request)
        listed = reverse(f"admin:{self.opts.app_label}_{self.opts.model_name}_changelist")
        return confirmed(question, request, {**site, "opts": self.opts, "media": self.media, "list_url": listed})

    def keep_note(self, request: HttpRequest, token: Any, did: str, reason: str) -> None:
        """Keep who did what with a token, and why."""
        log.info("%s %s token %s: %s", request.user.get_username(), did, token, reason)
        self.log_change(request, token, f"{did}: {reason}")


class TokenAdmin(CredentialAdmin):
    """Staff may read tokens, administrators may renew and revoke them. The secret is not stored."""

    list_display = ("user", "name", "validity", "last_used", "created")
    list_display_links = ("name",)
    list_select_related = ("user",)
    ordering = ("user__username", "name")
    search_fields = ("name", "user__username")
    exclude = ("digest",)
    actions = ("renew", "revoke")

    @admin.display(description="valid", ordering="expires")
    def validity(self, token: Token) -> str:
        return tokens.validity(token)

    @admin.action(description="Renew the selected tokens")
    def renew(self, request: HttpRequest, queryset: QuerySet[Token]) -> HttpResponse | None:
        chosen = list(queryset)
        effect = (
            "They are valid again from now, for the lifetime with which they were made. Their secrets stay the same."
        )
        reason = self.confirmed(request, chosen, "Renew", effect=effect, command=_command("renew", chosen))
        if not isinstance(reason, str):
            return reason
        for token in chosen:
            tokens.renew(token)
            self.keep_note(request, token, "renewed", reason)
            self.message_user(request, f"{token}: {tokens.validity(token)}")
        return None

    @admin.action(description="Revoke the selected tokens: their requests are refused and their watches end")
    def revoke(self, request: HttpRequest, queryset: QuerySet[Token]) -> HttpResponse | None:
        chosen = list(queryset)
        reason = self.confirmed(request, chosen, "Revoke", effect=REVOKED, command=_command("revoke", chosen))
        if not isinstance(reason, str):
            return reason
        for token in chosen:
            self.keep_note(request, token, "revoked", reason)
            tokens.revoke(token.user, token.name)
            self.message_user(request, f"{token} is revoked", messages.WARNING)
        return None


class ServiceAccountTokenAdmin(CredentialAdmin):
    """Tokens of ServiceAccounts. Administrators may revoke them. The secret is not stored."""

    list_display = ("namespace", "name", "audiences", "bound_kind", "bound_name", "created", "expires")
    list_display_links = ("name",)
    ordering = ("namespace", "name", "expires")
    search_fields = ("namespace", "name")
    exclude = ("digest",)
    actions = ("revoke",)

    @admin.action(description="Revoke the selected tokens: their requests are refused and their watches end")
    def revoke(self, request: HttpRequest, queryset: QuerySet[ServiceAccountToken]) -> HttpResponse | None:
        chosen = list(queryset)
        names = sorted({f"-n {quote(token.namespace)} {quote(token.name)}" for token in chosen})
        command = " && ".join(f"kubectl delete serviceaccount {one}" for one in names)
        effect = f"{REVOKED} The command deletes the ServiceAccount, and with it all of its tokens."
        reason = self.confirmed(request, chosen, "Revoke", effect=effect, command=command)
        if not isinstance(reason, str):
            return reason
        for token in chosen:
            self.keep_note(request, token, "revoked", reason)
            token.delete()
        self.message_user(request, f"{len(chosen)} tokens are revoked", messages.WARNING)
        return None


def _command(verb: str, chosen: Sequence[Token]) -> str:
    """Return the command that renews or revokes tokens."""
    named = ((quote(token.user.get_username()), quote(token.name)) for token in chosen)
    return " && ".join(f"manage.py token {verb} --user {user} --name {name}" for user, name in named)


class ProviderUserAdmin(RowAdmin):
    """Users who log in with a browser at an OpenID provider, each with its subject there."""

    list_display = ("user", "subject", "issuer")
    list_select_related = ("user",)
    ordering = ("user__username",)
    search_fields = ("user__username", "subject")


for _model, _page in ((get_user_model(), OwnUserAdmin), (Group, OwnGroupAdmin)):
    admin.site.unregister(_model)
    admin.site.register(_model, _page)
admin.site.register(Token, TokenAdmin)
admin.site.register(ProviderUser, ProviderUserAdmin)
admin.site.register(ServiceAccountToken, ServiceAccountTokenAdmin)
