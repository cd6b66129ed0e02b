"""A project of Django whose models are written by handlers (it needs `pip install django`, and grete[msgspec]).

cd examples/django_shop
python manage.py migrate --run-syncdb
python manage.py grete topics create orders --partitions 2
python manage.py grete run
echo '{"customer": "ada", "amount": 3}' | grete produce orders
"""

import os
import sys

from django.core.management import execute_from_command_line

if __name__ == "__main__":
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "settings")
    execute_from_command_line(sys.argv)
