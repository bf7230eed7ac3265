"""Django's registration of this app."""

from django.apps import AppConfig


class MembersConfig(AppConfig):
    name = "apps.members"
