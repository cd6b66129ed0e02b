"""Is the output of each source record there whose offset is committed? librdkafka reads, and asks for the offsets."""

from __future__ import annotations

from confluent_kafka import Consumer, KafkaException, TopicPartition

from tests.integration.transform_app import key_of, output_of
from tests.kafka import Deadline, KafkaCluster
from tests.kafka.admin import QUIET
from tests.kafka.load import index_of


class TransformJudge:
    """Reads on in the output topic with each look. `unit`: within what the order is judged: partition, key or ""."""

    def __init__(self, kafka: KafkaCluster, group: str, source: str, target: str, count: int, unit: str) -> None:
        # Records whose output came again.
        self.repeated: list[int] = []
        # How often an output came first behind one of a later record of its unit.
        self.falls = 0
        self._kafka = kafka
        self._group = group
        self._source = source
        self._target = target
        self._count = count
        self._partitions = len(kafka.admin.partitions(source))
        self._positions = dict.fromkeys(range(self._partitions), 0)
        self._seen = bytearray(count)
        self._key = key_of(self._partitions) if unit == "key" else lambda index: b"%d" % (index % self._partitions)
        self._judges_order = bool(unit)
        self._last: dict[bytes, int] = {}

    @property
    def duplicates(self) -> int:
        return len(self.repeated)

    @property
    def written(self) -> int:
        """Records in the output topic, those that came twice included."""
        return sum(self._kafka.admin.end_offsets(self._target).values())

    def look(self, moment: str) -> None:
        """AssertionError if a record is committed whose output is not there. The offsets are asked for first."""
        committed = self._kafka.admin.committed(self._group)
        self._read()
        lost: dict[int, list[int]] = {}
        for partition in range(self._partitions):
            end = committed.get((self._source, partition), 0)
            offsets = [at for at in range(end) if not self._seen[at * self._partitions + partition]]
            if offsets:
                lost[partition] = offsets
        total = sum(map(len, lost.values()))
        rows = [f"partition {at}: {len(of)} of offsets {of[0]}..{of[-1]}" for at, of in lost.items()]
        assert not lost, f"{moment}: {total} records are committed and have no output: {'; '.join(rows)}"

    def assert_all(self) -> None:
        """Everything is committed, and every output is there, as read anew from the start."""
        ends = {(self._source, at): end for at, end in self._kafka.admin.end_offsets(self._source).items()}
        assert sum(ends.values()) == self._count
        assert self._kafka.admin.committed(self._group) == ends
        self._positions = dict.fromkeys(self._positions, 0)
        self._seen = bytearray(self._count)
        self._last.clear()
        self.repeated.clear()
        self.falls = 0
        self.look("at the end")
        assert all(self._seen)

    def _read(self) -> None:
        """To the ends as they are now."""
        ends = self._kafka.admin.end_offsets(self._target)
        left = {at: end for at, end in ends.items() if self._positions[at] < end}
        servers = self._kafka.bootstrap_servers
        reader = Consumer({"bootstrap.servers": servers, "group.id": "judge", "enable.auto.commit": False, **QUIET})
        deadline = Deadline(60.0)
        try:
            reader.assign([TopicPartition(self._target, at, self._positions[at]) for at in left])
            while left:
                assert not deadline.over, f"librdkafka did not reach {left} from {self._positions}"
                for message in reader.consume(10_000, timeout=0.1):
                    error = message.error()
                    if error is not None:
                        raise KafkaException(error)
                    partition, offset, value = message.partition(), message.offset(), message.value()
                    assert isinstance(partition, int)
                    assert isinstance(offset, int)
                    assert isinstance(value, bytes)
                    self._take(partition, value)
                    self._positions[partition] = offset + 1
                left = {at: end for at, end in left.items() if self._positions[at] < end}
        finally:
            reader.close()

    def _take(self, partition: int, value: bytes) -> None:
        index = index_of(value)
        assert index < self._count, f"not an output: {value!r}"
        assert value == output_of(index), f"not the output of record {index}: {value!r}"
        assert index % self._partitions == partition
        if self._seen[index]:
            self.repeated.append(index)
            return
        self._seen[index] = 1
        if self._judges_order:
            key = self._key(index)
            last = self._last.get(key, -1)
            self.falls += index < last
            self._last[key] = max(index, last)
