"""Django for the tests of the project, with a database file of their own."""

import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django
import pytest

sys.path.insert(0, str(Path(__file__).parent))
_directory = tempfile.TemporaryDirectory()
os.environ.update({"DJANGO_SETTINGS_MODULE": "settings", "SHOP_DATABASE": f"{_directory.name}/shop.sqlite3"})
django.setup()


@pytest.fixture(scope="session")
def migrated() -> Iterator[None]:
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)
    yield
    _directory.cleanup()


@pytest.fixture(autouse=True)
def no_invoices(request: pytest.FixtureRequest) -> Iterator[None]:
    """Each test begins with an empty table, and leaves no connection open."""
    from django.db import connections
    from shop.models import Invoice

    request.getfixturevalue("migrated")
    Invoice.objects.all().delete()
    yield
    connections.close_all()
