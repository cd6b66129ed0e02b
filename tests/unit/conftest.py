"""Settings of the property tests."""

from hypothesis import settings

# No deadline: how long one example takes on a machine that others use, too, says nothing.
settings.register_profile("grete", deadline=None, print_blob=True)
settings.load_profile("grete")
