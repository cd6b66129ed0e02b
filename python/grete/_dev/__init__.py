"""Command `grete dev`, and the App that starts again for `grete run --reload`. `grete dev` starts within milliseconds,
so its modules import little: no click, no part of the client.
"""
