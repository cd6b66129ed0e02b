"""Which settings are nobody's business."""

import re

MASK = "********"

_SECRET = re.compile(
    r"passw(or)?d|passphrase|secret|token|credential|jaas|api[._-]?key|private|basic\.auth|^sasl\.|^ssl\..*key",
    re.IGNORECASE,
)
# These say how it is kept and sent, and where; that is what one wants to see when it does not work.
_OPEN = re.compile(r"^sasl\.mechanisms?$|\.(location|type|algorithm)$|^sasl\.(login|oauthbearer)\..*(\.ms|\.seconds)$")
_USER_INFO = re.compile(r"(?<=://)[^/@\s]*@")


def masked(name: str, value: object) -> object:
    """The value if it may be shown. In other values, what stands before the "@" of a URL is hidden."""
    if value is None or value == "":
        return value
    if _SECRET.search(name) and not _OPEN.search(name):
        return MASK
    if isinstance(value, str):
        return _USER_INFO.sub(f"{MASK}@", value)
    return value
