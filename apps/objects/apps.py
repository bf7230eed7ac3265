"""Django's registration of this app."""

from django.apps import AppConfig


class ObjectsConfig(AppConfig):
    name = "apps.objects"

    def ready(self) -> None:
        """Refuse to start if a type of row-native values has no table. Models can be imported only now."""
        from apps.objects.row_model import row_models

        row_models()
