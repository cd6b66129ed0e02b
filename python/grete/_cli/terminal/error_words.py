"""Errors of the admin client in the words of the command line."""

import re

# "reset_offsets of group billing: the group has members": the command is known, its subject is what matters.
_METHOD_OF = re.compile(r"^[a-z_]+ of (?=topic |group |static member |[^ ]+\[[0-9]+\]:)")
_METHOD_WAITS = re.compile(r"^(?:[a-z_]+)(?= (?:had no answer within|was interrupted))")

# What the client's errors advise in Python, and the same on the command line.
_CURES = {
    "or until remove_members": "or until `grete groups remove-member`",
    "with describe_groups": "with `grete groups describe`",
    "pass if_not_exists": "give --if-not-exists",
    "check the name against the list of topics": "`grete topics list` shows the topics",
    "check the id against the list of groups": "`grete groups list` shows the groups",
}


def command_error(text: str) -> str:
    """Returns the text of an error without the names of Python's methods and arguments."""
    text = _METHOD_WAITS.sub("the command", _METHOD_OF.sub("", text))
    for python, command in _CURES.items():
        text = text.replace(python, command)
    return text
