"""The registry: all events of Grete. docs/events.md is made of it (`python -m tests.unit.event_page`).

Times are seconds, sizes bytes. Names in the present tense come before something, in the past tense after it, then with
`time` where it takes any. What Kafka's brokers and partitions are called is text.
"""

from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING

from grete.instrumentation.described import Described

_HERE = "topic: str, partition: int"
_UNIT = f"job: int, handler: str, {_HERE}, slot: int"
_RUN = f"{_UNIT}, group: str"
_BEGUN = f"{_RUN}, attempt: int, records: int, first_offset: int, last_offset: int, messages: Messages"
_RECORD = f"{_UNIT}, offset: int, message: Message"
_OVER = "time: float, error: BaseException | None"
_LATE = f"handler: str, {_HERE}, slot: int, seconds: float, worker: str"
_BATCH = "topic: str, partition: int, records: int"
_NODE = "node: int, pid: int"

APP = {
    "app.preloaded": Described((INFO,), "a function of `@app.preload` has run", "preload: str"),
    "app.running": Described(
        (INFO,),
        "clients and workers run; `node` is of a swarm",
        "app: str, node: int | None, topics: list[str], groups: list[str]",
    ),
    "app.scaled": Described((INFO,), "`App.scale` has set the number of workers", "workers: int"),
    "app.probes": Described((INFO,), "the probes listen", "addresses: list[str]"),
    "app.quiet": Described((INFO,), "no more records are handed out"),
    "app.stopping": Described((INFO,), "a signal has begun the stop"),
    "app.hurried": Described((WARNING,), "a second SIGINT: no handler is waited for"),
    "app.late_job": Described((ERROR,), "a handler has not ended in its part of `shutdown_timeout`"),
    "app.blocked": Described((ERROR,), "a handler has not ended within `shutdown_timeout`"),
    "app.not_committed": Described(
        (ERROR,),
        "records were not delivered before the stop, so the offsets behind them were not committed",
        "error: BaseException",
    ),
    "app.stop_failed": Described(
        (ERROR,), "a part of the stop itself failed; the others went on", "error: BaseException"
    ),
    "app.forced": Described((ERROR,), "the stop was not over in time: the process ends with status 2"),
    "app.failed": Described((ERROR,), "an error that no waiting cures ends the App", "error: BaseException"),
    "app.stopped": Described((INFO,), "the stop is over"),
}

CONSUMER = {
    "consumer.consume": Described(
        (), "a handler is about to get records; `job` is a number that only this call of it has", _BEGUN
    ),
    "consumer.consumed": Described((), "it has returned, or raised `error`", f"{_BEGUN}, {_OVER}"),
    "message.process": Described(
        (), "a function that gets records one by one is about to be called with this one, or its payload", _RECORD
    ),
    "message.processed": Described((), "it has returned, or raised `error`", f"{_RECORD}, {_OVER}"),
    "consumer.initialized": Described((), "a new instance's `initialize` has returned or raised", f"{_RUN}, {_OVER}"),
    "consumer.revoked": Described(
        (),
        "the `revoked` hooks of a partition have run; `lost`: it was somebody else's already",
        f"{_RUN}, lost: bool, {_OVER}",
    ),
    "consumer.shutdown": Described((), "the `shutdown` hooks of a partition have run", f"{_RUN}, {_OVER}"),
    "consumer.tick": Described((), "the `tick` hooks of a partition have run", f"{_RUN}, {_OVER}"),
    "consumer.eof": Described((), "the `eof` hooks of a partition have run", f"{_RUN}, {_OVER}"),
    "consumer.error": Described(
        (CRITICAL, ERROR, WARNING),
        "a hook has failed. `hook` is consume, initialize, revoked, ..., `decision` what becomes of the records: "
        "retry, halve, dead_letter, later, hold, skipped or refused",
        f"{_HERE}, attempt: int, slot?: int, first_offset?: int, last_offset?: int, handler: str, hook: str, "
        "decision?: str, error: BaseException",
    ),
    "consumer.retry": Described(
        (INFO,),
        "a handler asked for another try (`grete.RetryLater`)",
        f"{_HERE}, attempt: int, slot?: int, first_offset?: int, last_offset?: int, handler: str, hook: str, "
        "decision?: str, error: BaseException",
    ),
    "consumer.dead_letter": Described(
        (WARNING, ERROR),
        "a record is now in its dead letter topic; or (then ERROR, with `hook`) could not be written there and waits",
        f"handler: str, {_HERE}, offset?: int, dead_letter?: str, attempts?: int, attempt?: int, slot?: int, "
        "first_offset?: int, last_offset?: int, hook?: str, decision?: str, "
        "error?: BaseException",
    ),
    "consumer.stalled": Described(
        (WARNING,),
        "a handler runs longer than its `stall_after`; its stack is in the log line",
        f"{_LATE}, first_offset?: int, last_offset?: int",
    ),
    "consumer.timeout": Described(
        (ERROR,),
        "a handler runs longer than its `handler_timeout`; its stack is in the log line",
        f"{_LATE}, first_offset?: int, last_offset?: int",
    ),
    "consumer.abandoned": Described(
        (ERROR,), "a handler outlasted `max.poll.interval.ms`: its partition went on without it", _LATE
    ),
    "consumer.unmarked": Described(
        (WARNING,),
        "a partition waits, because records from `offset` on are not marked; `open` are handed out and not done",
        f"handler: str, {_HERE}, offset: int, open: int",
    ),
    "consumer.expired": Described(
        (WARNING,),
        "records were passed over because of the route's `expire`; once in 10 s for a partition",
        f"handler: str, {_HERE}, records: int, first_offset: int, last_offset: int",
    ),
    "background.failed": Described(
        (ERROR,), "a function of `self.background` raised", "background: str, error: BaseException"
    ),
    "thread.leaked": Described(
        (WARNING,),
        "a thread or task outlives its consumer",
        "leaked: str, place?: str, hook?: str, count?: int",
    ),
    "loop.error": Described((ERROR,), "the event loop's own handler of exceptions was called", "error?: BaseException"),
}

GROUP = {
    "group.coordinator_found": Described((DEBUG,), "the group's coordinator is known", "broker: str"),
    "group.coordinator_lost": Described((INFO,), "it has to be looked for again", "broker: str"),
    "group.rebalancing": Described((INFO,), "the group rebalances"),
    "group.joined": Described(
        (INFO,), "we are in the group's new generation", "generation: int, member_id: str, leader: str"
    ),
    "group.join_retried": Described((INFO,), "joining failed and is tried again"),
    "group.assigned": Described((INFO,), "these partitions are ours from now on", "generation: int, partitions: str"),
    "group.revoked": Described(
        (INFO, ERROR), "these are not any more; ERROR: their handlers had not ended", "partitions: str"
    ),
    "group.lost": Described((ERROR,), "these were taken from us", "partitions: str, reason: str"),
    "group.place_kept": Described(
        (INFO,), "a static member is gone, and its partitions wait for it", "instance: str, session_ms: str"
    ),
    "group.not_left": Described(
        (ERROR,), "a stop could not leave a group in order", "group: str, error: BaseException"
    ),
    "offset.commit_failed": Described((WARNING,), "an offset was not committed", f"{_HERE}, offset: int"),
    "offset.load_retried": Described((INFO,), "asking for committed offsets failed and is tried again"),
    "offset.metadata_refused": Described(
        (WARNING,), "brokers store no map of what is processed beyond an offset", "bytes: str"
    ),
    "offset.reset": Described(
        (WARNING,), "an offset is not in the log: `auto.offset.reset` goes on elsewhere", f"{_HERE}, from: int, to: int"
    ),
}

CLIENT = {
    "broker.connected": Described((DEBUG,), "a connection stands", "broker: str, address: str, channel: str"),
    "broker.disconnected": Described(
        (WARNING, DEBUG), "it is gone; DEBUG: as it was meant to be", "broker: str, address: str, reason: str"
    ),
    "broker.connect_failed": Described(
        (WARNING, DEBUG),
        "a broker cannot be reached; WARNING: for the 1st, 2nd, 4th, 8th, ... time in a row",
        "broker: str, address: str, failures: str",
    ),
    "broker.not_kafka": Described((ERROR,), "what answers there is not Kafka", "address: str"),
    "broker.throttled": Described((INFO,), "a quota: a broker asks to hold back", "broker: str, ms: str"),
    "cluster.down": Described((ERROR,), "no known broker can be reached", "addresses: str"),
    "cluster.rebootstrap": Described((WARNING,), "the addresses of bootstrap.servers are asked again"),
    "metadata.failed": Described((DEBUG,), "a broker gave no metadata", "broker: str"),
    "topic.unknown": Described((WARNING,), "a topic does not exist, or not yet", "topic: str"),
    "topic.error": Described((WARNING,), "brokers say that something is wrong with a topic", "topic: str, error: str"),
    "topic.recovered": Described((INFO,), "it is there", "topic: str"),
    "topic.recreated": Described((ERROR,), "it was deleted and created again: old offsets mean nothing", "topic: str"),
    "partition.unknown": Described(
        (ERROR,), "a topic has only so many `partitions`, and others were assigned", "topic: str, partitions: str"
    ),
    "partition.failed": Described((ERROR,), "a partition stops with an error; others go on"),
    "position.waiting": Described((WARNING,), "the offset to start from is still looked for", _HERE),
    "fetch.retrying": Described((DEBUG, INFO), "a broker refused a fetch; INFO: more than once in a row", _HERE),
    "fetch.corrupt_batch": Described((ERROR,), "a batch is corrupt and fetched once more", f"{_HERE}, offset: int"),
    "fetch.session_error": Described((DEBUG,), "a broker refused a fetch session; a new one is made", "broker: str"),
    "fetch.bad_response": Described((ERROR,), "an answer to a fetch cannot be read", "broker: str"),
    "fetch.notice": Described((INFO,), "anything else that fetching has to say"),
    "log.truncated": Described(
        (ERROR,), "an unclean election cut a partition's log back", f"{_HERE}, from: int, to: int"
    ),
}

PRODUCER = {
    "produce.retried": Described((INFO,), "batches are sent again", _BATCH),
    "produce.split": Described((INFO,), "a batch was too large for the topic, and is halved", _BATCH),
    "produce.expired": Described((ERROR,), "records were not delivered within `delivery.timeout.ms`", _BATCH),
    "produce.failed": Described((ERROR,), "records were refused", _BATCH),
    "produce.given_up": Described((ERROR,), "records were given up: the producer was closed, or has failed", _BATCH),
    "produce.identity": Described((DEBUG,), "the producer has an id", "producer_id: str, epoch: str"),
    "produce.no_identity": Described((INFO,), "no broker gives it one yet"),
    "producer.failed": Described((ERROR,), "a producer has failed for good"),
    "producer.undelivered": Described((ERROR,), "a producer was closed before all its records were delivered"),
    "producer.late": Described((ERROR,), "a producer's thread has not ended in time"),
    "producer.callback": Described((ERROR,), "a callback of `on_delivery` raised", "error: BaseException"),
}

MANAGER = {
    "swarm.started": Described((INFO,), "the nodes are about to be forked", "nodes: int"),
    "swarm.steady": Described((INFO,), "all nodes are steady for the first time", "nodes: int, seconds: float"),
    "swarm.unsteady": Described(
        (WARNING,),
        "no node has been steady for unsteady_timeout; none is replaced for it. Once until one is steady again",
        "nodes: int, seconds: float, limit: float",
    ),
    "swarm.late": Described(
        (WARNING,),
        "the supervisor itself did not run (SIGSTOP, a machine asleep): silence in that time is held against no node",
        "seconds: float",
    ),
    "swarm.quiet": Described((INFO,), "all nodes are told to hand out no more records", "nodes: int"),
    "swarm.dump": Described(
        (INFO,),
        "all nodes are told to write their stacks; `skipped` are those that have not reported yet and so could not",
        "nodes: list[int], skipped: list[int]",
    ),
    "swarm.restarting": Described((INFO,), "a rolling restart begins, or begins anew", "nodes: list[int]"),
    "swarm.restarted": Described((INFO,), "it is over: all are replaced and steady", "nodes: int, seconds: float"),
    "swarm.restart_failed": Described(
        (WARNING, ERROR),
        "it ends before its time, or does not begin; `reason` is unsteady, quiet or stop, `left` are the nodes that "
        "stay as they were, `blocking` those that are not steady",
        "reason: str, left: list[int], blocking: list[int]",
    ),
    "swarm.crash_loop": Described(
        (ERROR,),
        "a node had crash_loop_after short lives in a row; it is tried again all the same. Once until it is well again",
        "node: int, lives: int, last_death: str | None",
    ),
    "swarm.given_up": Described((ERROR,), "every node is in a crash loop: the swarm ends with status 1", "nodes: int"),
    "swarm.stopping": Described((INFO,), "all nodes are asked to stop", "nodes: int, limit: float"),
    "swarm.hurried": Described(
        (WARNING,), "a second signal: no handler is waited for", "nodes: int, limit: float"
    ),
    "swarm.stopped": Described((INFO, ERROR), "all nodes are gone", "status: int"),
    "swarm.node.started": Described((INFO,), "a node was forked", f"{_NODE}, restarts: int"),
    "swarm.node.fork_failed": Described(
        (ERROR,),
        "a node could not be forked; `restart_in` as below",
        "node: int, error: str, restart_in: float | None",
    ),
    "swarm.node.steady": Described(
        (INFO, DEBUG),
        "a node has its place in its groups, `seconds` after its start or (then DEBUG) after it lost it",
        f"{_NODE}, seconds: float",
    ),
    "swarm.node.unsteady": Described((DEBUG,), "it has lost it: a rebalance, mostly", _NODE),
    "swarm.node.recovered": Described(
        (INFO,), "a node is well again after so many short lives in a row", f"{_NODE}, lives: int"
    ),
    "swarm.node.stopping": Described(
        (WARNING, INFO),
        "a node is asked to stop, or stops by itself; `reason` is memory, gil, handler, membership, report, pipe, "
        "restart, itself or stop. What does not belong to the reason is None",
        f"{_NODE}, reason: str, seconds: float | None, limit: float | None, handler: str | None, topic: str | None, "
        "partition: int | None, rss: int | None, max_rss: int | None, error: str | None",
    ),
    "swarm.node.killing": Described(
        (ERROR,), "it has not stopped in time and gets SIGKILL", f"{_NODE}, reason: str | None, seconds: float"
    ),
    "swarm.node.unkillable": Described(
        (ERROR,), "it outlives SIGKILL: the kernel keeps it", f"{_NODE}, seconds: float"
    ),
    "swarm.node.died": Described(
        (INFO, WARNING, ERROR),
        "a process is gone. `status` is its exit code or -signal, `signal` that signal's name, `reason` that of the "
        "stop that we had asked for, `rss` what it said last; `restart_in` None: nothing takes its place",
        f"{_NODE}, status: int, signal: str | None, uptime: float, reason: str | None, rss: int | None, "
        "restart_in: float | None",
    ),
}  # fmt: skip
"""What the swarm's Manager decides."""

SWARM = MANAGER | {
    "swarm.starting": Described((INFO,), "the App is loaded, and all is checked", "app: str, nodes: int"),
    "swarm.control": Described((INFO,), "the control socket listens", "path: str"),
    "swarm.probes": Described((INFO,), "the probes listen", "addresses: list[str]"),
    "swarm.command": Described((INFO,), "somebody asks through the control socket", "command: str, asked_by: int"),
    "swarm.memory": Described(
        (INFO,),
        "how much memory the swarm takes, once in a while; each of `nodes` has node, pid, rss, pss, private",
        "pss: int | None, supervisor: int | None, nodes: list[dict[str, int | None]]",
    ),
    "swarm.native_threads": Described(
        (WARNING,), "a library runs threads where nodes are to be forked", "threads: int"
    ),
    "swarm.node.failed": Described(
        (ERROR,), "in a node: what ended it, with the traceback", "node: int, error: BaseException"
    ),
    "swarm.answer.failed": Described((ERROR,), "a question to the supervisor could not be answered", emitted=False),
    "swarm.notify.failed": Described((WARNING,), "the service manager cannot be told (NOTIFY_SOCKET)", emitted=False),
    "swarm.failed": Described(
        (CRITICAL,), "the supervisor itself failed: all nodes are killed", "error: BaseException"
    ),
}

MONITOR = {
    "dogstatsd.dropped": Described(
        (WARNING,),
        "the agent does not take all of a `DogStatsD`'s datagrams: how many by reason. Once until it does again",
        "address: str, dropped: dict[str, int]",
        emitted=False,
    ),
    "statistics.emitted": Described(
        (),
        "each `statistics_interval` (10 s) of a process that runs the App, and once more when it stops: what "
        "`App.statistics()` and `App.families()` return. Without a listener nothing of it is made",
        "statistics: dict[str, object], metrics: tuple[Family, ...]",
    ),
    "error.occurred": Described(
        (ERROR,),
        'a listener raised (`type` is "listener"): `of` is the event that it was called for. One that raises for this '
        "event is logged only",
        "type: str, of: str, listener: str, error: BaseException",
    ),
}

EVENTS = APP | CONSUMER | GROUP | CLIENT | PRODUCER | SWARM | MONITOR
"""Name: what to expect."""
