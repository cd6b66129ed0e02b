"""Routes: from a declaration to a checked route with a handler.

- `routes`: the settings of a route, and checks across settings and routes.
- `signatures`: the kind of a handler, from its signature; `hints`: its annotations; `arguments`: what each of its
  parameters gets.
- `call_plan`: compiled call of a handler; `provider_scopes`: providers that clean up; `results`: what handlers return.
- `function_consumers`: functions as consumers.
- `pinning`: which node of a swarm runs which routes, and reads which partitions.
"""
