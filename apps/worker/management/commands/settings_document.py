"""`manage.py settings_document`: the tables of docs/settings.md."""

from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand

from config.settings_document import with_tables


class Command(BaseCommand):
    help = "Update the tables of docs/settings.md from the settings in the code."

    def handle(self, *args: Any, **options: Any) -> None:
        path = Path(settings.BASE_DIR) / "docs" / "settings.md"
        path.write_text(with_tables(path.read_text()))
