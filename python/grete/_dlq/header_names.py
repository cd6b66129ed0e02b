"""Names of a dead letter's headers. All values are UTF-8 text."""

# Headers with this prefix are Grete's: a replay removes them.
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

# Headers that are written with a dead letter. If a record has some of them already (another program's replay left them
# there), they are replaced.
FAILURE_HEADERS = frozenset(
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

# Number of replays. This header travels with the record, through the handler and back to the dead letters.
REPLAYED = "grete.replayed"
