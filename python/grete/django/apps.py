"""Configuration for `INSTALLED_APPS`, in which "grete.django" stands."""

from django.apps import AppConfig


class GreteConfig(AppConfig):  # type: ignore[misc]
    """Django application that brings `manage.py grete`."""

    name = "grete.django"
    label = "grete"
    verbose_name = "Grete"
