"""Topics of `grete web`: their names, their settings, and their creation."""

from collections.abc import Mapping
from dataclasses import dataclass

from grete._processing.commands.receiver import AUDIT, COMMANDS
from grete._processing.reports.web_reports import ERRORS, REPORTS
from grete.client import Admin
from grete.errors import TopicExistsError, UnknownTopicError

__all__ = ["AUDIT", "COMMANDS", "ERRORS", "HISTORY", "PLAN", "REPORTS", "TopicState", "create_topics", "topic_states"]

HISTORY = "grete.history"
"""Compacted topic of the time series that `grete web` keeps."""

PLAN: Mapping[str, Mapping[str, str]] = {
    # Reports of processes that ended a week ago are deleted. Small segments, so that compaction has something to do.
    REPORTS: {
        "cleanup.policy": "compact,delete",
        "retention.ms": "604800000",
        "segment.bytes": "67108864",
        "segment.ms": "3600000",
    },
    ERRORS: {"cleanup.policy": "delete", "retention.ms": "2592000000", "segment.bytes": "67108864"},
    # A command is valid for minutes.
    COMMANDS: {"cleanup.policy": "delete", "retention.ms": "86400000", "segment.bytes": "16777216"},
    AUDIT: {"cleanup.policy": "delete", "retention.ms": "7776000000", "segment.bytes": "67108864"},
    HISTORY: {"cleanup.policy": "compact", "segment.bytes": "16777216", "segment.ms": "86400000"},
}


@dataclass(frozen=True, slots=True)
class TopicState:
    """A topic beside what it should be. `partitions` is 0 if it does not exist."""

    name: str
    partitions: int
    replication: int
    under_replicated: int
    differences: Mapping[str, tuple[str, str]]
    """Setting -> (value, planned value)."""

    @property
    def exists(self) -> bool:
        """Whether brokers have the topic."""
        return self.partitions > 0


def topic_states(admin: Admin, timeout: float) -> list[TopicState]:
    """Returns the state of each topic of the plan."""
    present = set(admin.topics(internal=True, timeout=timeout))
    return [_state(admin, name, timeout) if name in present else TopicState(name, 0, 0, 0, {}) for name in PLAN]


def create_topics(admin: Admin, replication: int, timeout: float) -> tuple[list[str], list[str]]:
    """Creates the topics that are missing, and changes the settings of the others that differ. Returns the names of
    both. `replication`: number of copies of new topics; -1: the brokers' default.
    """
    created, changed = [], []
    for state in topic_states(admin, timeout):
        if not state.exists:
            try:
                admin.create_topic(
                    state.name, 1, replication_factor=replication, config=dict(PLAN[state.name]), timeout=timeout
                )
                created.append(state.name)
            except TopicExistsError:
                pass  # another setup was faster
        elif state.differences:
            admin.alter_config(state.name, dict(PLAN[state.name]), timeout=timeout)
            changed.append(state.name)
    return created, changed


def _state(admin: Admin, name: str, timeout: float) -> TopicState:
    try:
        found = admin.describe_topic(name, timeout=timeout)
        config = admin.config(name, timeout=timeout)
    except UnknownTopicError:
        return TopicState(name, 0, 0, 0, {})
    values = {setting: entry.value or "" for setting, entry in config.items()}
    differences = {
        setting: (values[setting], planned)
        for setting, planned in PLAN[name].items()
        if setting in values and set(values[setting].split(",")) != set(planned.split(","))
    }
    lacking = sum(len(partition.isr) < len(partition.replicas) for partition in found.partitions)
    copies = min((len(partition.replicas) for partition in found.partitions), default=0)
    return TopicState(name, len(found.partitions), copies, lacking, differences)
