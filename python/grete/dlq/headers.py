"""The names of a dead letter's headers. All values are UTF-8 text."""

# Whatever begins like this is Grete's: a replay takes it off.
PREFIX = "grete."

SOURCE_TOPIC = "grete.source.topic"
SOURCE_PARTITION = "grete.source.partition"
SOURCE_OFFSET = "grete.source.offset"
SOURCE_GROUP = "grete.source.group"
ATTEMPTS = "grete.attempts"
ERROR_CLASS = "grete.error.class"
ERROR_MESSAGE = "grete.error.message"
# ISO 8601, UTC, with milliseconds.
FIRST_FAILED = "grete.failed.first"
LAST_FAILED = "grete.failed.last"

# What is written with a dead letter. A record that brings some of these along (somebody else's replay left them there)
# gets them replaced.
OF_A_FAILURE = frozenset(
    {
        SOURCE_TOPIC,
        SOURCE_PARTITION,
        SOURCE_OFFSET,
        SOURCE_GROUP,
        ATTEMPTS,
        ERROR_CLASS,
        ERROR_MESSAGE,
        FIRST_FAILED,
        LAST_FAILED,
    }
)

# How often the record has been replayed. It goes with the record, through the handler and back to the dead letters.
REPLAYED = "grete.replayed"
