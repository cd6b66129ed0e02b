"""Settings of Grete.

- `layers`: the layers of settings, their resolution, and the masking of secrets.
- `registry`: all settings with their defaults, those of the swarm in `swarm_settings`; `parsers`: their parsers.
- `suggest`: suggestions for misspelled names, and Kafka's settings under other names.
- `static_membership`: `group.instance.id`.
"""
