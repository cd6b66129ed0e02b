"""Public error classes."""

from collections.abc import Mapping

from grete._explain.entry import Entry

CLASSES: Mapping[str, Entry] = {
    "AbortedDeliveryError": Entry(
        "The transaction of the record was aborted: by its caller, or because another record or an offset of it "
        "failed. Readers with `isolation.level=read_committed` never see the record.",
        "Run the transaction again. The cause is in the message, and in the line `transaction.failed`.",
        "orders[3]: the record is not committed, because its transaction was aborted: its producer aborted it",
    ),
    "AuthenticationError": Entry(
        "The brokers refuse the login: a wrong user, password or mechanism, an expired token, or a listener "
        "without SASL.",
        "Change the setting that the message names. `grete doctor` logs in step by step and shows what the broker "
        "offers.",
        "kafka-1:9093: the broker refused the login by SCRAM-SHA-512 (Authentication failed): check sasl.username "
        "and sasl.password",
    ),
    "AuthorizationError": Entry(
        "The login is valid, and no ACL allows this operation to the user.",
        "Add the ACL that the message names, with `grete acls create`. `grete acls list` shows what there is.",
        "not allowed to read topic orders: the client needs Read on topic orders: grete acls create "
        "--allow-principal User:billing --operation Read --topic orders",
    ),
    "BatchResultError": Entry(
        "A handler of batches with `publish=` returned another number of values than it got records, or no list.",
        "Return one value for each record in their order, with None where nothing is written, or return "
        "`grete.Record(value, key=...)` objects.",
        "enrich was given 100 records and returned 99 values: return one for each record, in order (None: "
        "nothing), or grete.Record(value, key=...) objects",
    ),
    "BrokerError": Entry(
        "Embedded brokers cannot start, have ended, or cannot do what was requested. Kafka's own brokers never "
        "cause it.",
        "Read the message: most often the port is taken, or the directory of `data=` belongs to another process. "
        "Choose another port or directory.",
        "port 9092 of 127.0.0.1 is in use: stop the other process, or choose another port",
    ),
    "BufferFullError": Entry(
        "`buffer.memory` stayed full for `max.block.ms`: records arrive faster than brokers take them, or no "
        "broker takes any.",
        "See in the log whether brokers are reachable. If they are, write more slowly, or raise `buffer.memory`. "
        "In a loop, wait for the deliveries of what was produced before.",
        'the producer\'s memory is full (33554432 bytes, buffer.memory), so the record for topic "orders" was not '
        "taken: records come faster than brokers take them, or no broker takes any",
    ),
    "ClosedError": Entry(
        "A client is used after `close()`, or after the `with` block that made it.",
        "Make a new client, or keep the first one open for as long as it is used.",
        "this producer is closed; make a new one",
    ),
    "CommitUnknownError": Entry(
        "The answer to a commit was lost, and the coordinator refuses to repeat it: the transaction may be committed.",
        "Read the topics with `isolation.level=read_committed` before doing the work again, then make a new producer.",
        "the outcome of the commit is unknown: its answer was lost, and then: ...",
    ),
    "ConfigError": Entry(
        "A setting has an unknown name or a value that cannot be used. It is raised before anything starts.",
        "Correct the setting that the message names; `setting` and `origin` of the error say which one, and where "
        "it was read. `grete info APP` shows all settings with their origins.",
        'shop.py:9: concurrency="keys": it is "partition", "key" or "unordered"',
    ),
    "CorruptBatchError": Entry(
        "A record batch has a wrong checksum or content, and was fetched a second time with the same result. Only "
        "the low-level consumer raises it.",
        "Let the brokers repair the replica, or seek beyond the batch. An App goes on with its other partitions "
        "and tries again.",
        "orders[3]: the batch at offset 4120 cannot be read: its checksum or its content is wrong",
    ),
    "DeadLetterError": Entry(
        "A record has used up its attempts, and the dead letter topic did not take it.",
        "Create the topic or grant Write on it, as the message says. The record is kept: its partition waits and "
        "the write is tried again.",
        'record orders[3]@17 could not be written to "orders.dlq": the topic does not exist',
    ),
    "DecodeError": Entry(
        "The value of a record does not fit the type that the handler declares, or is no valid encoding at all.",
        "Set `dead_letter`, so that such records are put aside. Then correct the producer or the type, and replay "
        "them with `grete dlq replay`. The cause of the error has the decoder's own words.",
        "orders[3] offset 17 does not decode: ValidationError: Object missing required field `amount`",
    ),
    "DeliveryError": Entry(
        "Brokers did not acknowledge a record. `outcome` is `not_written`, or `unknown` if a broker may have it "
        "all the same.",
        "`not_written`: produce it again once the cause in the message is gone. `unknown`: produce it again only "
        "if a duplicate is better than a loss. In a handler let the error pass: the job is retried.",
        "not delivered within delivery.timeout.ms: no connection to a broker",
    ),
    "EncodeError": Entry(
        "A value or key has another type than its topic declares, or holds something without an encoded form.",
        "Produce the type that the message names, or change the declaration of the topic. `field` is the path of "
        "the value.",
        'a value of topic "invoices" is Invoice, not dict: produce a Invoice, or declare the topic with value=dict',
    ),
    "FencedError": Entry(
        "Another producer has started with the same `transactional.id`, or the transaction was open for longer than "
        "`transaction.timeout.ms`, so that the coordinator has aborted it.",
        "Stop one of the two, or give each an id of its own. Keep transactions shorter than the timeout. Then make a "
        "new producer.",
        'transactional.id "payments-1" was fenced (INVALID_PRODUCER_EPOCH): another producer has started with the same '
        "transactional.id and has taken over",
    ),
    "FencedInstanceError": Entry(
        "Another process joined the group with the same `group.instance.id`, and this member was removed for good.",
        "Stop the other process, or give each process its own id. `grete swarm` numbers its nodes by itself.",
        "group billing: another member has joined with group.instance.id=billing-0, and this one was fenced",
    ),
    "ForkedClientError": Entry(
        "A client was made before a fork and is used in the child, where its threads do not exist.",
        "Make the client in the child: in `@app.on_startup` or in `initialize` of a consumer, and not at import.",
        "this producer was made before a fork and belongs to the parent process; make a new one in the child, "
        "after the fork",
    ),
    "GreteError": Entry(
        "Base class of all errors of Grete. It is raised itself for misuse that has no class of its own.",
        "Do what the message says. Catch it to catch all errors of Grete.",
        'App "billing" does not run',
    ),
    "GroupError": Entry(
        "The coordinator refused this member for good, for example because its protocol differs from that of the "
        "group.",
        "Compare the settings of all members: `group.protocol`, assignors and session times. `grete groups "
        "describe` shows the members.",
        "group billing: this member offers cooperative-sticky, and no assignor is common to all members of the group",
    ),
    "GroupNotEmptyError": Entry(
        "The operation needs a group without members, and members are there.",
        "Stop the processes of the group first. A static member stays until its session times out, or until "
        "`grete groups remove-member`.",
        "reset_offsets of group billing: the group is not empty (NON_EMPTY_GROUP); stop the group's members first",
    ),
    "HostLoopError": Entry(
        "An App runs on the event loop of its host, and this loop was closed or ended while handlers needed it.",
        "Stop the App before the loop ends: use `grete.asgi.lifespan(app)`, or `async with` around what the loop runs.",
        "the event loop of the host is closed: start the App while it runs",
    ),
    "IncompatibleSchemaError": Entry(
        "The Schema Registry refuses a schema, because it contradicts earlier versions of its subject.",
        "Make the change compatible, for example by a default for a new field. `grete schemas check APP` shows it "
        "before the deployment.",
        'subject "orders-value": the schema is incompatible with an earlier version: '
        "READER_FIELD_MISSING_DEFAULT_VALUE",
    ),
    "KafkaError": Entry(
        "A broker answered with an error code that has no class of its own. `name` and `code` are Kafka's.",
        "Read the message of the broker. Kafka's documentation describes each code by its name.",
        "create_topics of topic orders: the replication factor is larger than the number of brokers "
        "(INVALID_REPLICATION_FACTOR); request no more replicas than there are brokers",
    ),
    "LifecycleError": Entry(
        "A function of the start or the stop of the App failed. `hook` is its name, `location` its place.",
        "Correct the function; its own exception is the cause of this error.",
        "open_pool (shop.py:14) failed: ConnectionRefusedError: [Errno 111] Connection refused",
    ),
    "NeedsEmbeddedBrokerError": Entry(
        "A test asks for faults or for the log of requests, and runs on brokers of `--kafka` that cannot do that.",
        "Nothing: pytest skips the test. Run it on embedded brokers, which are the default.",
        "faults need embedded brokers: run the test without --kafka",
    ),
    "NoPayloadError": Entry(
        "`message.payload` is read on a route that does not say how its values are decoded.",
        'Give the route a type or a format, like `@app.consumer("orders", payload="json")`, or use `message.value`.',
        'records of "orders" have no payload: nothing says how to decode their values. Give the route one, like '
        '@app.consumer("orders", payload="json"), or use .value',
    ),
    "NotAssignedError": Entry(
        "The position of a partition is moved or held that this process does not have.",
        "Call it in the process that has the partition, for example in a handler. `grete groups describe` shows "
        "the owners.",
        "orders[3] is not assigned to this consumer: only the positions of assigned partitions can be moved or held",
    ),
    "NotForkableError": Entry(
        "Threads run or clients are open in the supervisor that would not survive the fork of the nodes.",
        "Open clients in `@app.on_startup` or in handlers, and not at import. The message names the threads and "
        "their files.",
        "cannot fork: the thread Thread-1 (poll) runs, started at shop.py:12",
    ),
    "NotKafkaError": Entry(
        "A server accepts connections at an address of `bootstrap.servers`, and does not speak Kafka's protocol.",
        "Correct the address: it may be the port of a web server, of a database, or a Kafka listener with TLS.",
        "localhost:8080 answers like an HTTP server; bootstrap.servers needs the port of a broker's Kafka "
        "listener (often 9092)",
    ),
    "NotSupportedError": Entry(
        "A setting of Kafka or of Grete is not implemented yet, or a feature not on this system: swarms need Linux. It "
        "is refused, because ignoring it would change what the program does.",
        "Leave the setting out. `docs/configuration.md` lists what is supported, `docs/versions.md` on which systems.",
        "interceptor.classes is not supported yet: leave it out",
    ),
    "OffsetError": Entry(
        'A partition has no valid offset to begin at, and `auto.offset.reset` is "none".',
        "Seek to an offset, or set `auto.offset.reset` to `earliest` or `latest`.",
        "orders[3]: the group has no committed offset, and auto.offset.reset is none",
    ),
    "PartialResultError": Entry(
        "Some brokers did not respond, so that a listing is not complete. `partial` has the results of the others.",
        "Use `partial`, or repeat the call when all brokers are there. The cause is the error of the first broker.",
        "list_groups: 1 of 3 brokers did not respond",
    ),
    "PartitionFailedError": Entry(
        'A partition cannot be read, and `on_failed_partition="stop"` ends the App. `reason` is one word.',
        "Do what the message says for the reason; docs/failed-partitions.md lists all reasons. The default, "
        "`wait`, goes on with the other partitions.",
        "orders[3] has no leader: start the brokers that have its replicas, or create its topic again if that was "
        'deleted; on_failed_partition is "stop", so the App ends',
    ),
    "PreloadError": Entry(
        "A function of `@app.preload` failed, so the swarm does not start.",
        "Correct the function; the message has its traceback.",
        "load_prices (shop.py:21) failed: FileNotFoundError: [Errno 2] No such file or directory: 'prices.bin'",
    ),
    "RecordTooLargeError": Entry(
        "A record is larger than `max.request.size` or `buffer.memory` allow, so that it can never be sent.",
        "Send less: store the data elsewhere and produce its address. Or raise `max.request.size`, and "
        "`max.message.bytes` of the topic.",
        'topic "orders": a record of 2097240 bytes is above the 1048576 that max.request.size and buffer.memory allow',
    ),
    "RecordTypeError": Entry(
        "The value, key or header of a record is neither bytes nor something that its topic can encode.",
        "Encode it to bytes, or declare a `grete.Topic` with a type and produce to that.",
        'a record for topic "orders": its value is a str; Kafka keeps bytes: give value.encode()',
    ),
    "RegistryError": Entry(
        "A Schema Registry refused a request or is not reachable, or what answers is no Schema Registry.",
        "Read the status and the message. Check the URL, the credentials and the network.",
        "GET http://registry:8081/schemas/ids/7: 401 Unauthorized",
    ),
    "Reject": Entry(
        "Your handler raised it: further attempts are useless, and the record goes to the dead letter topic at once.",
        "Nothing is wrong with Grete. Without a `dead_letter` the record is tried again, because nothing is skipped.",
        "the order has no customer",
    ),
    "RetryLater": Entry(
        "Your handler raised it, to run the job again later. It does not count as an attempt.",
        "Nothing is wrong. If it happens all the time, see what the handler waits for.",
        "again in 300 s: the bank is closed",
    ),
    "RevokedError": Entry(
        "The partition belongs to another member by now, or its position was moved, while the handler was running.",
        "End the handler. The new owner processes the records that were not marked.",
        "the partition is not this job's any more: it was revoked or lost, or its position was moved meanwhile",
    ),
    "SchemaNotFoundError": Entry(
        "The Schema Registry does not have the schema, the version or the subject.",
        "Register the schema with `grete schemas register APP`, or correct the URL of the registry.",
        'subject "orders-value" not found (40401)',
    ),
    "ShutdownError": Entry(
        "A function of the stop failed or did not end in time. The other functions of the stop were still called.",
        "Correct the function. Offsets of processed records were committed before.",
        "close_pool (shop.py:19) failed: TimeoutError",
    ),
    "StartupError": Entry(
        "A function of the start failed, so that the App does not start and reads nothing.",
        "Correct what it needs, such as the address of a database; its exception is the cause.",
        "open_pool (shop.py:14) failed: ConnectionRefusedError: [Errno 111] Connection refused",
    ),
    "TimeoutError": Entry(
        "A call had no answer within its timeout. The message says what was missing.",
        "See in the log whether brokers are reachable, or run `grete doctor`. Then repeat the call, or raise its "
        "timeout.",
        "list_topics had no answer within 30.0 s; no broker could be reached",
    ),
    "TlsError": Entry(
        "No encrypted connection to an address of `bootstrap.servers` can be made. `reason` is one word.",
        "Do what the message says: it names the setting or the file. `grete doctor` shows the certificates.",
        "no encrypted connection to kafka-1:9093: its certificate was issued by an authority that is not in "
        "ssl.ca.location",
    ),
    "TopicExistsError": Entry(
        "A topic of this name exists already.",
        "Pass `if_not_exists=True`, or choose another name.",
        "create_topics of topic orders: the topic exists already (TOPIC_ALREADY_EXISTS); to accept the existing "
        "topic, pass if_not_exists",
    ),
    "TransactionAbortedError": Entry(
        "A record of the transaction was not delivered, its group has given the partitions to another member, or a "
        "broker refused a request. Nothing of the transaction is committed.",
        "Run the transaction again, with the same producer. After a rebalance, other members process the records.",
        "the transaction was aborted, nothing of it is committed: a record was not delivered: ...; run the transaction "
        "again",
    ),
    "TransactionError": Entry(
        "Base class of the errors of transactions. Raised itself, the coordinator has refused a request for good, or "
        "the brokers have no transactions.",
        "Do what the error code says, and make a new producer.",
        'transactional.id "payments-1": InitProducerId was refused: INVALID_TRANSACTION_TIMEOUT ...; make a new '
        "producer (lower transaction.timeout.ms, or raise transaction.max.timeout.ms on the brokers)",
    ),
    "TransactionStateError": Entry(
        "A record is produced outside of a transaction, a second one is begun, or the producer has no "
        "`transactional.id`.",
        "Produce inside of `with producer.transaction():`. A producer has one transaction at a time: for several, make "
        "several producers, each with its own id.",
        "there is no open transaction: call it inside of `with producer.transaction():`",
    ),
    "UndeliveredError": Entry(
        "A producer was closed before all its records were delivered. `undelivered` counts them by topic.",
        "Close it with a longer timeout, or see in the log why brokers do not take the records.",
        "closed with undelivered records: 12 of orders",
    ),
    "UnknownEventError": Entry(
        "A listener subscribes to an event that does not exist, or that is only logged.",
        "Correct the name; the message suggests one. docs/events.md lists all events.",
        "there is no event 'job.finish': did you mean 'job.finished'?",
    ),
    "UnknownGroupError": Entry(
        "The brokers know no group of this name. A group without members and offsets does not exist.",
        "`grete groups list` shows the groups. Check `bootstrap.servers`: it may be another cluster.",
        "describe_group of group biling: the group does not exist (GROUP_ID_NOT_FOUND); check the id against the "
        "list of groups",
    ),
    "UnknownTopicDeliveryError": Entry(
        "A record was produced in an event loop to a topic that does not exist, or to a partition that the topic "
        "does not have.",
        "Create the topic, or correct its name. The record was not written.",
        'there is no topic "ordrs": check the name (did you mean "orders"?), create the topic (grete topics '
        "create ordrs), or set allow.auto.create.topics=true",
    ),
    "UnknownTopicError": Entry(
        "The brokers do not have the topic, or the topic does not have the partition.",
        "Create the topic with `grete topics create`, or correct its name. With `@app.consumer`, Grete waits for "
        "the topic.",
        'there is no topic "ordrs": check the name (did you mean "orders"?), create the topic (grete topics '
        "create ordrs), or set allow.auto.create.topics=true",
    ),
}
