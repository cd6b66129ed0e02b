"""Registry of all events of Grete. docs/events.md is generated from it (`python -m tests.unit.event_page`).

Times are seconds, sizes are bytes. An event whose name is in the present tense is emitted before something happens. An
event in the past tense is emitted after that, with its duration as `time` where there is one. Fields that identify
brokers and lists of partitions are text.
"""

from logging import CRITICAL, DEBUG, ERROR, INFO, WARNING

from grete.instrumentation.event_spec import EventSpec

_PARTITION_FIELDS = "topic: str, partition: int"
_UNIT_FIELDS = f"job: int, handler: str, {_PARTITION_FIELDS}, slot: int"
_HOOK_FIELDS = f"{_UNIT_FIELDS}, group: str"
_JOB_FIELDS = f"{_HOOK_FIELDS}, attempt: int, records: int, first_offset: int, last_offset: int, messages: Messages"
_RECORD_FIELDS = f"{_UNIT_FIELDS}, offset: int, message: Message"
_RESULT_FIELDS = "time: float, error: BaseException | None"
_OVERDUE_FIELDS = f"handler: str, {_PARTITION_FIELDS}, slot: int, seconds: float, worker: str"
_BATCH_FIELDS = "topic: str, partition: int, records: int"
_NODE_FIELDS = "node: int, pid: int"

APP = {
    "app.preloaded": EventSpec((INFO,), "A function of `@app.preload` has returned.", "preload: str"),
    "app.hook_ran": EventSpec(
        (INFO,),
        "A function of the start or the stop has returned. `kind` is on_startup, on_shutdown or lifespan.",
        "hook: str, kind: str, time: float",
    ),
    "app.hook_failed": EventSpec(
        (ERROR, WARNING),
        "A function of the stop has raised, or did not end in time; the others run all the same. WARNING: after a "
        "failed start.",
        "hook: str, kind: str, error: BaseException",
    ),
    "app.hook_unfinished": EventSpec(
        (ERROR,),
        "A function of the start or the stop does not end; the stop goes on beside it.",
        "hook: str, kind: str",
    ),
    "app.hooks_skipped": EventSpec(
        (ERROR,),
        "Handlers still run at the end of `shutdown_timeout`, so the functions of the stop were not called.",
        "hooks: list[str]",
    ),
    "app.running": EventSpec(
        (INFO,),
        "Clients and workers run. `node` is the number of the swarm's node; None outside of a swarm.",
        "app: str, node: int | None, topics: list[str], groups: list[str]",
    ),
    "app.scaled": EventSpec((INFO,), "`App.scale` has changed the number of workers.", "workers: int"),
    "app.probes": EventSpec((INFO,), "The probe server listens at these addresses.", "addresses: list[str]"),
    "app.not_reported": EventSpec(
        (WARNING,), "Brokers take no reports for `grete web`. Once for each run.", "error: BaseException"
    ),
    "app.command": EventSpec(
        (INFO, WARNING),
        "The process has done what a command of `grete web` says, or has tried to.",
        "action: str, by: str, text: str",
    ),
    "app.command_refused": EventSpec(
        (WARNING,),
        "A record of `grete.commands` is no command for this process: forged, expired, repeated or unreadable.",
        "action: str, by: str, text: str",
    ),
    "app.no_commands": EventSpec(
        (WARNING,), "Commands of `grete web` cannot be read or answered. Once for each run.", "error: BaseException"
    ),
    "app.quiet": EventSpec((INFO,), "The App is quiet: running handlers go on, and no more records are handed out."),
    "app.stopping": EventSpec((INFO,), "A signal has started the stop of the App."),
    "app.stop_expedited": EventSpec(
        (WARNING,), "A second SIGINT arrived during the stop: the App does not wait for running handlers any more."
    ),
    "app.job_unfinished": EventSpec(
        (ERROR,), "A handler did not end in its share of `shutdown_timeout`; the stop goes on without the handler."
    ),
    "app.stop_timeout": EventSpec((ERROR,), "A handler did not end within `shutdown_timeout`."),
    "app.not_committed": EventSpec(
        (ERROR,),
        "Produced records were not delivered before the stop. The offsets of the records that produced them were not "
        "committed, so these records will be processed again.",
        "error: BaseException",
    ),
    "app.stop_failed": EventSpec(
        (ERROR,), "One step of the stop failed; the other steps were still carried out.", "error: BaseException"
    ),
    "app.forced": EventSpec((ERROR,), "The stop exceeded its time limit: the process exits with status 2."),
    "app.failed": EventSpec(
        (ERROR,), "The App stops because of an error that a retry cannot fix.", "error: BaseException"
    ),
    "app.stopped": EventSpec((INFO,), "The stop is complete."),
}

CONSUMER = {
    "job.started": EventSpec(
        (), "A handler is about to be called. `job` is a number that is unique to this call.", _JOB_FIELDS
    ),
    "job.finished": EventSpec(
        (), "The handler has returned, or raised `error` (None: it returned).", f"{_JOB_FIELDS}, {_RESULT_FIELDS}"
    ),
    "message.process": EventSpec(
        (),
        "A function that gets records one by one is about to be called with this record, or with its payload.",
        _RECORD_FIELDS,
    ),
    "message.processed": EventSpec(
        (),
        "The function that got this record has returned, or raised `error` (None: it returned).",
        f"{_RECORD_FIELDS}, {_RESULT_FIELDS}",
    ),
    "consumer.initialized": EventSpec(
        (), "`initialize` of a new instance has returned, or raised `error`.", f"{_HOOK_FIELDS}, {_RESULT_FIELDS}"
    ),
    "consumer.revoked": EventSpec(
        (),
        "The `revoked` hooks of a partition have run. `lost`: the partition was lost without a revocation, and another "
        "member may already own it.",
        f"{_HOOK_FIELDS}, lost: bool, {_RESULT_FIELDS}",
    ),
    "consumer.shutdown": EventSpec(
        (), "The `shutdown` hooks of a partition have run.", f"{_HOOK_FIELDS}, {_RESULT_FIELDS}"
    ),
    "consumer.tick": EventSpec((), "The `tick` hooks of a partition have run.", f"{_HOOK_FIELDS}, {_RESULT_FIELDS}"),
    "consumer.eof": EventSpec((), "The `eof` hooks of a partition have run.", f"{_HOOK_FIELDS}, {_RESULT_FIELDS}"),
    "consumer.error": EventSpec(
        (CRITICAL, ERROR, WARNING),
        "A handler or hook failed. `hook` is its kind: consume, initialize, revoked, ... `decision` is what happens to "
        "the records: retry, bisect, dead_letter, later, halt, skipped or refused. `offset`: the record that failed, "
        "if it is known. `not_before`: time of the next attempt at the earliest, in seconds since 1970.",
        f"{_PARTITION_FIELDS}, offset?: int, attempt: int, slot?: int, first_offset?: int, last_offset?: int, "
        "handler: str, group: str, hook: str, decision?: str, not_before?: float, error: BaseException",
    ),
    "consumer.retry": EventSpec(
        (INFO,),
        "A handler asked for a retry by raising `grete.RetryLater`.",
        f"{_PARTITION_FIELDS}, offset?: int, attempt: int, slot?: int, first_offset?: int, last_offset?: int, "
        "handler: str, group: str, hook: str, decision?: str, not_before?: float, error: BaseException",
    ),
    "consumer.dead_letter": EventSpec(
        (WARNING, ERROR),
        "WARNING: a record was written to its dead letter topic. ERROR, with `hook`: the write failed and will be "
        "retried; the record's partition waits.",
        f"handler: str, group: str, {_PARTITION_FIELDS}, offset?: int, dead_letter?: str, attempts?: int, "
        "attempt?: int, slot?: int, first_offset?: int, last_offset?: int, hook?: str, decision?: str, "
        "not_before?: float, error?: BaseException",
    ),
    "consumer.dropped_result": EventSpec(
        (WARNING,),
        "A handler has returned a value, and its route has no `publish`: the value is dropped. Once for each route and "
        "type.",
        "handler: str, type: str",
    ),
    "consumer.stalled": EventSpec(
        (WARNING,),
        "A handler has run for longer than its `stall_after`. The log record contains the handler's stack.",
        f"{_OVERDUE_FIELDS}, first_offset?: int, last_offset?: int",
    ),
    "consumer.timeout": EventSpec(
        (ERROR,),
        "A handler has run for longer than its `handler_timeout`. The log record contains the handler's stack.",
        f"{_OVERDUE_FIELDS}, first_offset?: int, last_offset?: int",
    ),
    "consumer.undelivered": EventSpec(
        (WARNING,),
        "The handler of a job has returned, but the records that it produced have not been delivered for longer than "
        "`stall_after`. The partition waits for them.",
        f"{_OVERDUE_FIELDS}, first_offset?: int, last_offset?: int, undelivered: int",
    ),
    "consumer.marks_dropped": EventSpec(
        (ERROR,),
        "Marks made after the end of their job were dropped, because a record produced before them was not written. "
        "The partition stays failed until a seek or a restart.",
        f"handler: str, {_PARTITION_FIELDS}, marks: int, offset?: int",
    ),
    "consumer.abandoned": EventSpec(
        (ERROR,),
        "A handler ran for longer than `max.poll.interval.ms`. The partition was given up without waiting for the "
        "handler.",
        _OVERDUE_FIELDS,
    ),
    "consumer.unmarked": EventSpec(
        (WARNING,),
        "A partition is paused because records from `offset` on are not marked. `open` records were handed out and are "
        "not done. Logged at most once per `stall_after` and partition; `pauses` counts the pauses since then.",
        f"handler: str, {_PARTITION_FIELDS}, offset: int, open: int, pauses: int",
    ),
    "consumer.expired": EventSpec(
        (WARNING,),
        "Records were skipped because they are older than the route's `max_age`. Logged at most once per 10 s and "
        "partition.",
        f"handler: str, {_PARTITION_FIELDS}, records: int, first_offset: int, last_offset: int",
    ),
    "consumer.duplicates": EventSpec(
        (INFO,),
        "Records were skipped because their ids came before, within `dedup_window`. Logged at most once per 10 s and "
        "partition.",
        f"handler: str, {_PARTITION_FIELDS}, records: int, first_offset: int, last_offset: int",
    ),
    "consumer.dedup_overflow": EventSpec(
        (WARNING,),
        "`dedup_memory` is full: `ids` were dropped before the end of `dedup_window`. Logged at most once per 10 s and "
        "partition.",
        f"handler: str, {_PARTITION_FIELDS}, ids: int",
    ),
    "consumer.dedup_waits": EventSpec(
        (WARNING,),
        "A partition is not processed, because the ids of the records before its committed offset `offset` cannot be "
        "read. This is tried again.",
        f"{_PARTITION_FIELDS}, offset: int, error: str",
    ),
    "background.failed": EventSpec(
        (ERROR,), "A function started with `self.background` raised `error`.", "background: str, error: BaseException"
    ),
    "thread.leaked": EventSpec(
        (WARNING,),
        "A thread or task still runs after its consumer instance has ended.",
        "leaked: str, place?: str, hook?: str, count?: int",
    ),
    "loop.blocked": EventSpec(
        (WARNING,),
        "The event loop has been blocked for longer than the shortest `stall_after` of its handlers: all async "
        "handlers of the process wait. The log record names the blocking handler if it is known, with the Python stack "
        "of the loop's thread.",
        "seconds: float, handler?: str, topic?: str, partition?: int, slot?: int, first_offset?: int, "
        "last_offset?: int, stack?: str",
    ),
    "loop.unblocked": EventSpec((INFO,), "The event loop runs again after `seconds`.", "seconds: float"),
    "loop.error": EventSpec((ERROR,), "The event loop's exception handler was called.", "error?: BaseException"),
}

GROUP = {
    "group.coordinator_found": EventSpec((DEBUG,), "The client found the group's coordinator.", "broker: str"),
    "group.coordinator_lost": EventSpec(
        (INFO,), "The client lost the group's coordinator and looks it up again.", "broker: str"
    ),
    "group.rebalancing": EventSpec((INFO,), "The group rebalances."),
    "group.joined": EventSpec(
        (INFO,),
        "This client is a member of the group's new generation.",
        "generation: int, member_id: str, leader: str",
    ),
    "group.join_retried": EventSpec((INFO,), "A join failed and is retried."),
    "group.classic_protocol": EventSpec(
        (INFO,),
        "With `group.protocol=auto`: this client uses the classic protocol, because the cluster or the group does not "
        "offer the consumer protocol (KIP-848), or because a setting was given that only the classic one has.",
        "reason: str",
    ),
    "group.assigned": EventSpec(
        (INFO,), "These partitions were assigned to this client.", "generation: int, partitions: list[tuple[str, int]]"
    ),
    "group.revoked": EventSpec(
        (INFO, ERROR),
        "These partitions were revoked from this client. ERROR: some of their handlers were still running.",
        "partitions: list[tuple[str, int]]",
    ),
    "group.lost": EventSpec(
        (ERROR,),
        "This client lost these partitions without a revocation.",
        "partitions: list[tuple[str, int]], reason: str",
    ),
    "group.membership_kept": EventSpec(
        (INFO,),
        "A static member was closed without LeaveGroup. The coordinator keeps its partitions for it until the session "
        "times out.",
        "instance: str, session_ms: str",
    ),
    "group.predecessor_released": EventSpec(
        (INFO,),
        "This client has left its group in the name of the process before, so that nothing waits for the end of its "
        "session (KIP-848). That process was a node of the swarm that is dead, or had the same `group.instance.id`.",
        "member_id: str",
    ),
    "group.not_authorized": EventSpec(
        (ERROR, DEBUG),
        "The App may not use its group, and waits for the ACL. ERROR once, DEBUG until the ACL is there. `reason` has "
        "the command that creates it.",
        "reason: str",
    ),
    "group.authorized": EventSpec((INFO,), "The ACL on the group is there again, and the App continues."),
    "group.not_left": EventSpec(
        (ERROR,), "The client could not leave a group properly when it stopped.", "group: str, error: BaseException"
    ),
    "offset.done_ahead": EventSpec(
        (WARNING,),
        "The App stops, and `records` processed records are behind records that are not. Without `offset_map` they "
        "will be processed again.",
        "records: int, partitions: list[tuple[str, int]]",
    ),
    "offset.commit_failed": EventSpec((WARNING,), "An offset was not committed.", f"{_PARTITION_FIELDS}, offset: int"),
    "offset.load_retried": EventSpec((INFO,), "OffsetFetch failed and is retried."),
    "offset.metadata_refused": EventSpec(
        (WARNING,),
        "Brokers refused the commit metadata that lists records processed beyond the committed offset. These records "
        "may be processed again.",
        "bytes: str",
    ),
    "offset.reset": EventSpec(
        (WARNING,),
        "An offset is not in the log, or the topic was created again. `auto.offset.reset` moved the position.",
        f"{_PARTITION_FIELDS}, from: int, to: int",
    ),
    "topics.matched": EventSpec(
        (INFO, WARNING),
        "Other topics match the patterns of a subscription: at the start, and when a topic was created or deleted. "
        "WARNING: none matches. `added` and `removed` name ten topics at most.",
        "patterns: str, topics: int, added: str, removed: str",
    ),
    "queue.locks_lost": EventSpec(
        (WARNING, INFO),
        "The locks of records of a queue had ended before they were acknowledged: the records are delivered again. "
        "INFO: an acknowledgement was repeated, and the broker had executed the first one or not.",
        f"{_PARTITION_FIELDS}, offset: int, records: int",
    ),
    "queue.no_renewal": EventSpec(
        (WARNING,),
        "The broker cannot renew the locks of records of a queue (before Kafka 4.2). `seconds` is the duration of a "
        "lock.",
        "broker: str, seconds: str",
    ),
}

CLIENT = {
    "queue.session_lost": EventSpec((DEBUG,), "A broker has ended a share session; a new one begins.", "broker: str"),
    "queue.bad_response": EventSpec(
        (ERROR,), "A ShareFetch response names acquired records that it cannot have.", "broker: str"
    ),
    "broker.connected": EventSpec(
        (DEBUG,),
        'A connection to a broker was established. `broker` is "bootstrap" for an address of bootstrap.servers.',
        "broker: str, address: str, channel: str",
    ),
    "broker.disconnected": EventSpec(
        (WARNING, DEBUG),
        "A connection to a broker was lost (WARNING), or closed on purpose (DEBUG).",
        "broker: str, address: str, reason: str",
    ),
    "broker.connect_failed": EventSpec(
        (WARNING, DEBUG),
        "A broker cannot be reached. WARNING: for the 1st, 2nd, 4th, 8th, ... time in a row; DEBUG: otherwise.",
        "broker: str, address: str, failures: str",
    ),
    "broker.not_kafka": EventSpec(
        (ERROR,), "The server at this address does not speak the Kafka protocol.", "address: str"
    ),
    "broker.tls_failed": EventSpec(
        (ERROR,),
        "No encrypted connection to any bootstrap address can be made, so the client ends. The message has the cure; "
        "`reason` is that of `TlsError`.",
        "address: str, reason: str",
    ),
    "broker.login_failed": EventSpec(
        (ERROR, DEBUG),
        "A broker refuses the login by SASL, or there is no token or ticket for it. ERROR once, DEBUG until a login "
        "succeeds. `kind` is refused, mechanism, listener, server, malformed, token or kerberos; `reason` has the "
        "cure.",
        "address: str, kind: str, reason: str",
    ),
    "broker.login_recovered": EventSpec((INFO,), "A login succeeded after failures.", "address: str"),
    "broker.login_exposed": EventSpec(
        (WARNING,), "sasl.allow.plaintext lets this client send its password or token unencrypted.", "mechanism: str"
    ),
    "tls.unverified": EventSpec(
        (WARNING,),
        "Settings switch off a check of the brokers' certificates, so that another server can pretend to be a broker.",
        "setting: str",
    ),
    "tls.reload_failed": EventSpec(
        (WARNING,),
        "Changed files of certificates cannot be read; new connections use the former ones.",
        "setting: str",
    ),
    "broker.throttled": EventSpec(
        (INFO,), "A broker throttles this client because of a quota.", "broker: str, ms: str"
    ),
    "cluster.down": EventSpec((ERROR,), "No known broker can be reached.", "addresses: str"),
    "cluster.rebootstrap": EventSpec(
        (WARNING,), "The client looks the brokers up again at the addresses of bootstrap.servers."
    ),
    "metadata.failed": EventSpec((DEBUG,), "A Metadata request to a broker failed.", "broker: str"),
    "topic.unknown": EventSpec((WARNING,), "A topic does not exist, or does not exist yet.", "topic: str"),
    "topic.error": EventSpec((WARNING,), "Brokers report an error for a topic.", "topic: str, error: str"),
    "topic.recovered": EventSpec((INFO,), "A topic that was missing exists now.", "topic: str"),
    "topic.missing": EventSpec(
        (WARNING,),
        "The topic that a route's `setting` (dead_letter, publish) names does not exist. Logged once; the topic is "
        "looked up again every 30 s.",
        "topic: str, handler: str, setting: str",
    ),
    "topic.created": EventSpec(
        (INFO,),
        "A dead letter topic did not exist and was created (`dead_letter_create`).",
        "topic: str, handler: str, partitions: int",
    ),
    "topic.recreated": EventSpec(
        (ERROR,), "A topic was deleted and created again: its old offsets are no longer valid.", "topic: str"
    ),
    "partition.unknown": EventSpec(
        (ERROR,),
        "Partitions were assigned that the topic does not have. `partitions` is the topic's number of partitions.",
        "topic: str, partitions: str",
    ),
    "partition.failed": EventSpec(
        (ERROR,),
        "A partition cannot be read; other partitions go on. Repeated every `stall_after` while the failure lasts; "
        "`seconds` is its duration so far.",
        f"{_PARTITION_FIELDS}, reason: str, error: str, seconds: float",
    ),
    "partition.stalled": EventSpec(
        (INFO, WARNING),
        "A partition has not moved for `stall_after`: no record was handed out or processed, although records wait. "
        "`waits_for` is the reason in one word; [Stalls](stalls.md) has all of them. INFO: the program itself asked "
        "for the wait. At most ten at a time have the same handler and reason; the last one has the number of the "
        "`others`. Once more, as a WARNING, if the partition then waits for another `stall_after`, for something that "
        "the program did not ask for. Not where another event names the reason: `consumer.stalled`, "
        "`consumer.undelivered`, `consumer.unmarked`, `loop.blocked` or `partition.failed`.",
        f"handler: str, {_PARTITION_FIELDS}, waits_for: str, seconds: float, lag?: int, others?: int",
    ),
    "partition.moving": EventSpec(
        (INFO,),
        "A stalled partition moves again. It had not moved for `seconds`. `others` as in `partition.stalled`.",
        f"handler: str, {_PARTITION_FIELDS}, seconds: float, others?: int",
    ),
    "partition.recovered": EventSpec(
        (INFO,),
        "A failed partition of an App can be read again after `seconds`.",
        f"{_PARTITION_FIELDS}, reason: str, seconds: float",
    ),
    "position.waiting": EventSpec(
        (WARNING,),
        "The client still does not know the offset at which it starts to read a partition.",
        _PARTITION_FIELDS,
    ),
    "fetch.retrying": EventSpec(
        (DEBUG, INFO),
        "A broker refused a fetch of a partition, and the client retries. INFO: more than once in a row.",
        _PARTITION_FIELDS,
    ),
    "fetch.corrupt_batch": EventSpec(
        (ERROR,), "A record batch is corrupt and is fetched once more.", f"{_PARTITION_FIELDS}, offset: int"
    ),
    "fetch.session_error": EventSpec(
        (DEBUG,), "A broker refused a fetch session; the client opens a new one.", "broker: str"
    ),
    "fetch.replica_refused": EventSpec(
        (INFO,),
        "A follower does not serve a partition that was read from it (`client.rack`). The partition is read from its "
        "leader.",
        f"{_PARTITION_FIELDS}, broker: str",
    ),
    "fetch.replica_unreachable": EventSpec(
        (WARNING,),
        "A follower does not answer. The partitions that were read from it (`client.rack`) are read from the leaders.",
        "broker: str, partitions: int",
    ),
    "fetch.bad_response": EventSpec((ERROR,), "A Fetch response cannot be parsed.", "broker: str"),
    "fetch.event": EventSpec((INFO,), "Any other log event of the fetcher."),
    "log.truncated": EventSpec(
        (ERROR,),
        "An unclean leader election truncated a partition's log from offset `from` to offset `to`.",
        f"{_PARTITION_FIELDS}, from: int, to: int",
    ),
}

PRODUCER = {
    "produce.retried": EventSpec((INFO,), "Batches failed and are sent again.", _BATCH_FIELDS),
    "produce.split": EventSpec((INFO,), "A batch was too large for its topic and was split in two.", _BATCH_FIELDS),
    "produce.expired": EventSpec(
        (ERROR,), "Records were not delivered within `delivery.timeout.ms`; they are not sent again.", _BATCH_FIELDS
    ),
    "produce.failed": EventSpec((ERROR,), "A broker refused records for good.", _BATCH_FIELDS),
    "produce.given_up": EventSpec(
        (ERROR,), "Records were given up because the producer was closed or has failed.", _BATCH_FIELDS
    ),
    "produce.id_assigned": EventSpec(
        (DEBUG,), "The producer received its producer id.", "producer_id: str, epoch: str"
    ),
    "produce.id_pending": EventSpec((INFO,), "InitProducerId has not succeeded yet; the producer retries."),
    "transaction.committed": EventSpec(
        (DEBUG,),
        "A transaction was committed. With exactly-once jobs: how many records and partitions it had, and how long the "
        "commit took.",
        "records: int, partitions: int, seconds: float, transactional_id: str",
    ),
    "transaction.aborted": EventSpec(
        (DEBUG, INFO, WARNING),
        "A transaction was aborted. INFO: not by its own producer's call. WARNING: one of exactly-once jobs, whose "
        "records are sent again.",
        "cause: str, transactional_id: str",
    ),
    "transaction.dropped": EventSpec(
        (DEBUG,), "Records that were not acknowledged end with their aborted transaction.", _BATCH_FIELDS
    ),
    "transaction.failed": EventSpec((WARNING,), "A transaction can only be aborted, because of an error."),
    "transaction.pending": EventSpec(
        (INFO,),
        "A request of a transaction has not succeeded yet; it is repeated. With exactly-once jobs: once for each "
        "transaction, with `transactional_id`.",
        "transactional_id: str",
    ),
    "producer.failed": EventSpec((ERROR,), "A producer failed permanently."),
    "producer.undelivered": EventSpec((ERROR,), "A producer was closed before all its records were delivered."),
    "producer.close_timeout": EventSpec((ERROR,), "The network thread of a producer did not end in time."),
    "provider.failed": EventSpec(
        (ERROR,),
        'The end of a provider with the scope "process" raised `error`.',
        "provider: str, error: BaseException",
    ),
    "producer.callback": EventSpec((ERROR,), "A callback of `on_delivery` raised `error`.", "error: BaseException"),
}

MANAGER = {
    "swarm.started": EventSpec((INFO,), "The supervisor is about to fork the nodes.", "nodes: int"),
    "swarm.ready": EventSpec(
        (INFO,), "All nodes are ready for the first time, `seconds` after the start.", "nodes: int, seconds: float"
    ),
    "swarm.not_ready": EventSpec(
        (WARNING,),
        "No node has been ready for not_ready_timeout. Nodes are not restarted, because that would not help. Logged "
        "once until a node is ready again.",
        "nodes: int, seconds: float, limit: float",
    ),
    "swarm.waiting": EventSpec(
        (INFO,),
        "Nodes are not ready, or hold up a rolling restart. For each of `nodes`, `causes` says what the node waits for "
        "and until when. Emitted after 5 s, then every 15 s. `seconds` is the longest wait; `limit` is the time left "
        "until the rolling restart gives up (None: no rolling restart, or it waits for a node to stop).",
        "nodes: list[int], seconds: float, limit: float | None, causes: list[str]",
    ),
    "swarm.supervisor_stalled": EventSpec(
        (WARNING,),
        "The supervisor did not run for `seconds` (SIGSTOP, or a system suspend). Timeouts of the nodes are extended "
        "by that time.",
        "seconds: float",
    ),
    "swarm.quiet": EventSpec(
        (INFO,), "The swarm is quiet: all nodes are asked to hand out no more records.", "nodes: int"
    ),
    "swarm.dump": EventSpec(
        (INFO,),
        "`nodes` are asked to write their stacks. `skipped` are nodes that cannot, because they have not reported yet "
        "or are about to end.",
        "nodes: list[int], skipped: list[int]",
    ),
    "swarm.restarting": EventSpec((INFO,), "A rolling restart begins, or begins again.", "nodes: list[int]"),
    "swarm.restarted": EventSpec(
        (INFO,), "A rolling restart is complete: all nodes were replaced and are ready.", "nodes: int, seconds: float"
    ),
    "swarm.restart_failed": EventSpec(
        (WARNING, ERROR),
        "A rolling restart was aborted, or refused. `reason` is not_ready, quiet or stop; `left` are the nodes that "
        "were not replaced; `blocking` are the nodes that are not ready.",
        "reason: str, left: list[int], blocking: list[int]",
    ),
    "swarm.crash_loop": EventSpec(
        (ERROR,),
        "A node died crash_loop_after times in a row soon after its start. The supervisor keeps restarting it. Logged "
        "once until the node has recovered.",
        "node: int, lives: int, last_death: str | None",
    ),
    "swarm.given_up": EventSpec(
        (ERROR,), "Every node is in a crash loop: the swarm stops and exits with status 1.", "nodes: int"
    ),
    "swarm.stopping": EventSpec(
        (INFO,), "All nodes are asked to stop; each has `limit` seconds.", "nodes: int, limit: float"
    ),
    "swarm.stop_expedited": EventSpec(
        (WARNING,),
        "A second SIGINT arrived during the stop: nodes do not wait for running handlers any more, and are killed "
        "after `limit` seconds.",
        "nodes: int, limit: float",
    ),
    "swarm.stopped": EventSpec(
        (INFO, ERROR), "All nodes have ended, and the supervisor exits with `status`. ERROR: not 0.", "status: int"
    ),
    "swarm.node.started": EventSpec((INFO,), "A node was forked.", f"{_NODE_FIELDS}, restarts: int"),
    "swarm.node.fork_failed": EventSpec(
        (ERROR,),
        "A node could not be forked. `restart_in` is the time until the next attempt (None: no further attempt).",
        "node: int, error: str, restart_in: float | None",
    ),
    "swarm.node.ready": EventSpec(
        (INFO, DEBUG),
        "A node is a stable member of its groups, `seconds` after its start (INFO), or after it was ready last "
        "(DEBUG).",
        f"{_NODE_FIELDS}, seconds: float",
    ),
    "swarm.node.not_ready": EventSpec(
        (DEBUG,), "A node is not ready any more, most often because of a rebalance.", _NODE_FIELDS
    ),
    "swarm.node.recovered": EventSpec(
        (INFO,), "A node has recovered after `lives` early deaths in a row.", f"{_NODE_FIELDS}, lives: int"
    ),
    "swarm.node.stopping": EventSpec(
        (WARNING, INFO),
        "A node is asked to stop, or stops by itself. `reason` is memory, gil, handler, membership, report, pipe, "
        "restart, itself or stop. Fields that do not belong to the reason are None.",
        f"{_NODE_FIELDS}, reason: str, seconds: float | None, limit: float | None, handler: str | None, "
        "topic: str | None, partition: int | None, rss: int | None, max_rss: int | None, error: str | None",
    ),
    "swarm.node.killing": EventSpec(
        (ERROR,),
        "A node did not stop in time and gets SIGKILL.",
        f"{_NODE_FIELDS}, reason: str | None, seconds: float",
    ),
    "swarm.node.unkillable": EventSpec(
        (ERROR,),
        "A node is still alive `seconds` after SIGKILL, because the kernel cannot end it yet.",
        f"{_NODE_FIELDS}, seconds: float",
    ),
    "swarm.node.died": EventSpec(
        (INFO, WARNING, ERROR),
        "The process of a node has ended. `status` is its exit code, or -signal; `signal` is the name of that signal; "
        "`reason` is that of the stop that was under way, if any. `rss` is from the node's last report. `restart_in` "
        "is the time until the next start (None: the node is not started again).",
        f"{_NODE_FIELDS}, status: int, signal: str | None, uptime: float, reason: str | None, rss: int | None, "
        "restart_in: float | None",
    ),
}  # fmt: skip
"""Events of the swarm's `Manager`."""

SWARM = MANAGER | {
    "swarm.starting": EventSpec(
        (INFO,), "The App is loaded, and the checks before the first fork have passed.", "app: str, nodes: int"
    ),
    "swarm.static": EventSpec(
        (INFO, WARNING),
        "Nodes are static members of their groups, and their `group.instance.id` begins with `instance`. `number` "
        "counts the swarms of this App on this host. WARNING, with None: the system offers no unique id, and nodes are "
        "dynamic members.",
        "instance: str | None, number: int | None",
    ),
    "swarm.control": EventSpec((INFO,), "The control socket listens at `path`.", "path: str"),
    "swarm.probes": EventSpec(
        (INFO,), "The supervisor's probe server listens at these addresses.", "addresses: list[str]"
    ),
    "swarm.command": EventSpec(
        (INFO,),
        "A client of the control socket sent a command; `requested_by` is its process id.",
        "command: str, requested_by: int",
    ),
    "swarm.memory": EventSpec(
        (INFO,),
        "Periodic report of the swarm's memory. Each of `nodes` has node, pid, rss, pss and private.",
        "pss: int | None, supervisor: int | None, nodes: list[dict[str, int | None]]",
    ),
    "swarm.native_threads": EventSpec(
        (WARNING,),
        "A library runs native threads in the supervisor before nodes are forked: forked nodes may deadlock.",
        "threads: int",
    ),
    "swarm.node.failed": EventSpec(
        (ERROR,),
        "Emitted in a node: an error ended it. The log record has the traceback.",
        "node: int, error: BaseException",
    ),
    "swarm.request.failed": EventSpec(
        (ERROR,), "The supervisor failed to answer a request of the control socket or the probes.", emitted=False
    ),
    "swarm.notify.failed": EventSpec(
        (WARNING,), "The service manager cannot be notified (NOTIFY_SOCKET).", emitted=False
    ),
    "swarm.failed": EventSpec(
        (CRITICAL,), "The supervisor itself failed: all nodes are killed.", "error: BaseException"
    ),
}

MONITOR = {
    "dogstatsd.dropped": EventSpec(
        (WARNING,),
        "Datagrams of a `DogStatsD` listener were dropped, because the agent does not accept them. `dropped` counts "
        "them by reason. Logged once until the agent accepts all datagrams again.",
        "address: str, dropped: dict[str, int]",
        emitted=False,
    ),
    "statistics.emitted": EventSpec(
        (),
        "Emitted every `statistics_interval` (10 s) in each process that runs the App, and once more when it stops. "
        "The fields are what `App.statistics()` and `App.families()` return; without a listener they are not computed.",
        "statistics: dict[str, object], metrics: tuple[Family, ...]",
    ),
    "listener.failed": EventSpec(
        (ERROR,),
        'A listener raised `error` (`type` is "listener"). `of` is the event that the listener was called for. A '
        "failing "
        "listener of `listener.failed` itself is only logged.",
        "type: str, of: str, listener: str, error: BaseException",
    ),
}

EVENTS = APP | CONSUMER | GROUP | CLIENT | PRODUCER | SWARM | MONITOR
"""Specification of each event, by name."""
