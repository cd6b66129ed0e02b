"""Events of Apps and of their handlers."""

from collections.abc import Mapping

from grete._explain.entry import Entry

HANDLERS: Mapping[str, Entry] = {
    "app.hook_failed": Entry(
        "A function of the stop raised an exception or did not end in time.",
        "Correct the function. The others were called all the same, and offsets were committed before.",
        "close_pool (shop.py:19) failed: OSError: [Errno 9] Bad file descriptor",
    ),
    "app.hook_unfinished": Entry(
        "A function of the start or the stop runs on, although it was cancelled.",
        "Give what it waits for a timeout that is shorter than `shutdown_timeout`.",
        "open_pool (shop.py:14) was cancelled by the stop and does not end; the stop goes on beside it",
    ),
    "app.hooks_skipped": Entry(
        "Handlers still ran when `shutdown_timeout` was over. They need what these functions would close.",
        "Make the handlers faster or raise `shutdown_timeout`; `app.job_unfinished` names the handlers.",
        "handlers still run, and need what these functions would close, which were not called: close_pool",
    ),
    "app.stop_expedited": Entry(
        "SIGINT arrived twice (Ctrl-C). Handlers that still run are given up.",
        "Nothing: their records will be processed again.",
        "second SIGINT: running handlers are not waited for any more",
    ),
    "app.job_unfinished": Entry(
        "A handler did not end in its share of `shutdown_timeout`.",
        "Raise `shutdown_timeout`, and the grace period of the service manager with it, or make the handler "
        "faster. Its unmarked records will be processed again.",
        "does not end, and what it has not marked will be processed again: orders[3] charge, 24.0 s",
    ),
    "app.stop_timeout": Entry(
        "A handler did not end within `shutdown_timeout`, so the process ends without it.",
        "As for `app.job_unfinished`. The line is followed by the handler's stack: it shows where it waits.",
        "did not end within shutdown_timeout: orders[3] charge, 30.0 s",
    ),
    "app.not_committed": Entry(
        "Records that handlers produced were not delivered before the stop. Offsets wait for outputs, so they "
        "were not committed.",
        "See why brokers did not take the records. After the next start their inputs are processed again.",
        "12 records of invoices were not delivered; the offsets of their inputs were not committed",
    ),
    "app.stop_failed": Entry(
        "One step of the stop raised an exception; the other steps were still carried out.",
        "Read the traceback. If no frame of it is yours, it is a defect of Grete: please report it.",
        "the stop failed",
    ),
    "app.forced": Entry(
        "The stop was not over in time, and the process ended with status 2, although threads still ran.",
        "See which handler or thread the line names, and give it a timeout of its own.",
        "forced stop: not over after shutdown_timeout: orders[3] charge, 30.0 s",
    ),
    "app.failed": Entry(
        "An error that a retry cannot cure ends the App: a wrong setting, a refused login, a topic without the "
        "declared partitions.",
        "Do what the message says, and start the App again.",
        "the broker refused the login by SCRAM-SHA-512 (Authentication failed): check sasl.username and sasl.password",
    ),
    "consumer.error": Entry(
        "A handler or one of its hooks raised an exception. WARNING: another attempt will follow. ERROR: it was "
        "the last one. CRITICAL: the App ends.",
        "Read the end of the line: it says what happens to the record. Set `retry` and `dead_letter` so that one "
        "record does not hold up its partition.",
        "orders[3]@17: charge failed (attempt 3 of 3): ValueError: amount -1; record 17 goes to orders.dlq",
    ),
    "consumer.dead_letter": Entry(
        "WARNING: a record was written to the dead letter topic. ERROR: that write failed and is tried again.",
        "`grete dlq list TOPIC` shows the records with their errors, `grete dlq replay TOPIC` sends them back "
        "once the cause is gone. ERROR: create the topic, or grant Write on it.",
        "orders[3]@17: written to orders.dlq[1]@4 after 3 attempts (ValueError: amount -1)",
    ),
    "consumer.dropped_result": Entry(
        "A handler returned a value, and its route has no `publish`.",
        "Say where results go, with `publish=`, or return nothing.",
        'charge returned dict, which is dropped: its route has no publish="..."; say where results go, or return '
        "nothing",
    ),
    "consumer.stalled": Entry(
        "A handler has run for longer than its `stall_after` (30 s). It may be slow, or wait for something.",
        "Read the stack below the line. Give calls to other services a timeout; raise `stall_after` for handlers "
        "that are slow by nature.",
        "orders[3]: charge (consume) offsets 17..17 runs for 31.0 s in grete-worker-2, longer than its "
        "stall_after; the partition waits for it, others go on",
    ),
    "consumer.timeout": Entry(
        "A handler has run for longer than its `handler_timeout`. A swarm replaces the node.",
        "Read the stack below the line, and give what the handler waits for a timeout of its own.",
        "orders[3]: charge (consume) offsets 17..17 runs for 61.0 s in grete-worker-2, past its handler_timeout; "
        "the partition waits for it, others go on",
    ),
    "consumer.undelivered": Entry(
        "A handler has returned, and brokers have not acknowledged what it produced.",
        "Look for `broker.*` and `produce.*` lines: most often brokers are unreachable, or `min.insync.replicas` "
        "is not met.",
        "orders[3]: charge (consume) offsets 17..17 has returned, and waits for 31.0 s for 1 record that it "
        "produced; no broker has acknowledged it, so the partition waits, and its offsets are not committed",
    ),
    "consumer.marks_dropped": Entry(
        "Records were marked after their job had ended, and a record that was produced before them was not written.",
        "Seek to the offset in the line, or restart. Wait for deliveries before marking.",
        "orders[3]: 4 marks of charge do not count, because a record that was produced before them was not "
        "written; nothing from offset 17 on is committed until the partition is read again: seek to offset 17, or "
        "restart",
    ),
    "consumer.abandoned": Entry(
        "A handler outlasted `max.poll.interval.ms` (5 minutes) while its partition was being revoked.",
        "Make the handler faster, or raise `max.poll.interval.ms`. Its records are processed again by the next owner.",
        "orders[3]: charge (consume) runs for 301.0 s in grete-worker-2 and outlasted max.poll.interval.ms, so "
        "the partition went on without it; what it marks from now on is refused",
    ),
    "consumer.unmarked": Entry(
        "A handler that marks records by itself has left `max_unmarked` of them open, so its partition waits.",
        "Mark what is processed with `self.mark(message)`, or raise `max_unmarked`.",
        "orders[3]: charge has left 100,000 records unmarked, from offset 17 on, so the partition waits; mark "
        "what is processed, or raise max_unmarked",
    ),
    "consumer.expired": Entry(
        "Records were older than `max_age` of their route and were skipped, as configured.",
        "If they should have been processed: the handler is too slow, or was not running. Raise `max_age`, or add "
        "workers.",
        "orders[3]: 12 records were skipped: they are older than charge's max_age, the last at offsets 17..28",
    ),
    "consumer.dedup_overflow": Entry(
        "A route with `dedup` has read more ids within `dedup_window` than `dedup_memory` holds. The oldest ones were "
        "dropped, so that duplicates of their records are processed.",
        "Raise `dedup_memory` (112 bytes for each id of a partition), or shorten `dedup_window`.",
        "orders[3]: 1200 ids of charge were dropped before the end of dedup_window, because dedup_memory is full; "
        "duplicates of these records will be processed; raise dedup_memory, or shorten dedup_window",
    ),
    "consumer.dedup_waits": Entry(
        "A route with `dedup` reads the records before the committed offset again, to know their ids, and cannot. The "
        "partition waits: a duplicate could pass otherwise.",
        "The error says what is wrong, mostly that a broker is away. The partition goes on by itself.",
        "orders[3] waits: the ids of the records before offset 4711 cannot be read, which dedup needs: ...; "
        "trying again",
    ),
    "background.failed": Entry(
        "A function that was started with `self.background` raised an exception and has ended.",
        "Catch what may fail in the function. It is not started again.",
        "refresh of Orders has failed and ended: ConnectionResetError: [Errno 104] Connection reset by peer",
    ),
    "thread.leaked": Entry(
        "A thread or task that a consumer instance started still runs after the instance has ended. A new one is "
        "started with each assignment.",
        "Start it with `self.background(...)`, or end it in `revoked` and `shutdown`.",
        'thread "poller", started at shop.py:30 by initialize of Orders, outlives its consumer',
    ),
    "loop.blocked": Entry(
        "A coroutine blocked the event loop, for example with `time.sleep` or a blocking client. All async "
        "handlers of the process wait.",
        "Await instead, or move the call to `asyncio.to_thread`. The stack below the line shows the place.",
        "the event loop has been blocked for 31.0 s; all async handlers of this process wait for it",
    ),
    "loop.error": Entry(
        "The event loop called its exception handler, most often because a task failed and was not awaited.",
        "Await each task, or handle its exception. The traceback shows the task.",
        "Task exception was never retrieved",
    ),
    "app.command": Entry(
        "A user of `grete web` has sent a command to this process. As a warning: it could not be done.",
        "Read the reason in the line, or on the page of the process. The topic `grete.audit` has all commands.",
        "command seek of ann: failed: orders[7] is not assigned to this App's process: seek where it is read",
    ),
    "app.command_refused": Entry(
        "A record in `grete.commands` names this process, and was not obeyed: it is not signed, its signature is of "
        "another secret, it has expired, or it came before.",
        "Give `grete web` and the App the same `web_commands_secret`, and compare the clocks of their machines. If you "
        "have sent no command, find out who may write to `grete.commands`.",
        "command unknown of unknown was refused: its signature is of another secret, or of another command",
    ),
    "app.no_commands": Entry(
        "`web_commands` or `web_commands_secret` is set. The topics `grete.commands` and `grete.audit` do not exist, "
        "or Read on the one or Write on the other is missing.",
        "Create the topics with `grete web setup`, grant the rights, or leave the settings out. The App works all the "
        "same, and asks again every 30 s.",
        "commands of grete web are not read or not answered: there is no topic grete.commands; the App goes on without "
        "them. Create their topics: grete web setup",
    ),
    "app.not_reported": Entry(
        "`web_reports` is set, and brokers do not take the reports: the topics `grete.reports` and `grete.errors` do "
        "not exist, or Write on them is missing.",
        "Create the topics with `grete web setup`, grant Write on them, or leave `web_reports` out. The App works all "
        "the same.",
        "reports for grete web are not written: there is no topic grete.reports; the App goes on without them. Create "
        "their topics: grete web setup",
    ),
}
