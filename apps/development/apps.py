"""Django's registration of this app."""

from django.apps import AppConfig


class DevelopmentConfig(AppConfig):
    name = "apps.development"
