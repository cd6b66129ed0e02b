"""Errors of the admin client, in the words of the command line."""

import pytest

from grete._cli.terminal.error_words import command_error


@pytest.mark.parametrize(
    ("python", "command"),
    [
        (
            (
                "reset_offsets of group billing: the group has members (NON_EMPTY_GROUP); stop the group's members "
                "first (static ones stay for their session timeout, or until remove_members)"
            ),
            (
                "group billing: the group has members (NON_EMPTY_GROUP); stop the group's members first "
                "(static ones stay for their session timeout, or until `grete groups remove-member`)"
            ),
        ),
        (
            (
                "describe_topics of topic orders: there is no such topic (UNKNOWN_TOPIC_OR_PARTITION); check the name "
                "against the list of topics"
            ),
            "topic orders: there is no such topic (UNKNOWN_TOPIC_OR_PARTITION); `grete topics list` shows the topics",
        ),
        ("offsets of orders[3]: no", "orders[3]: no"),
        (
            "remove_members of static member a of group g: no; list the group's members with describe_groups",
            "static member a of group g: no; list the group's members with `grete groups describe`",
        ),
        ("list_offsets had no answer within 0.5 s; check", "the command had no answer within 0.5 s; check"),
        ("the list of topics is empty", "the list of topics is empty"),
    ],
)
def test_names_of_methods_are_left_out(python: str, command: str) -> None:
    assert command_error(python) == command
