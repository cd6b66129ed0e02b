"""Settings of the project, with those of Grete."""

import os

SECRET_KEY = "example"
INSTALLED_APPS = ["grete.django", "shop"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
USE_TZ = True
ROOT_URLCONF = "urls"
ALLOWED_HOSTS = ["localhost", "testserver"]
DATABASES = {
    "default": {"ENGINE": "django.db.backends.sqlite3", "NAME": os.environ.get("SHOP_DATABASE", "shop.sqlite3")}
}

GRETE = {
    "app": "shop.stream:app",  # what `manage.py grete run` and `swarm` run
    "kafka": {"bootstrap.servers": os.environ.get("SHOP_KAFKA", "localhost:9092")},
    "workers": 2,
}
