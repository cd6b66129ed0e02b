"""Bearer tokens of clients (OAUTHBEARER): where they come from, and the thread that keeps them fresh.

Nothing here is imported before a client with `sasl.mechanism=OAUTHBEARER` is made.
"""

from grete._sasl.refresher import tokens_of

__all__ = ["tokens_of"]
