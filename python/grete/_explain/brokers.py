"""Events of groups, offsets, connections, topics and fetching."""

from collections.abc import Mapping

from grete._explain.entry import Entry

BROKERS: Mapping[str, Entry] = {
    "group.revoked": Entry(
        "ERROR: partitions were revoked while their handlers still ran, because they outlasted `max.poll.interval.ms`.",
        "Make the handlers faster, or raise `max.poll.interval.ms`. `consumer.abandoned` names them.",
        "revoked orders[3] although handlers had not ended (max.poll.interval.ms)",
    ),
    "group.lost": Entry(
        "The session of this member ended: it was stopped, swapped out, throttled by a CPU limit, or cut off from "
        "the coordinator.",
        "Remove the CPU limit of the container, or raise `session.timeout.ms`. Unmarked records are processed "
        "again elsewhere.",
        "lost orders[0], orders[3]: the coordinator does not know this member any more (UNKNOWN_MEMBER_ID)",
    ),
    "group.not_authorized": Entry(
        "The ACLs of the cluster do not allow the App to use its consumer group.",
        "Create the ACL with the command in the line. The App waits for the ACL and then continues.",
        "User:alice may not use the group billing (GROUP_AUTHORIZATION_FAILED): grete acls create --allow User:alice "
        "--operation read --group billing; until then no offsets are committed, and without its place no records are "
        "read",
    ),
    "group.not_left": Entry(
        "The coordinator could not be reached at the stop, so the member did not leave its group.",
        "Nothing: the group goes on without it when its session times out (`session.timeout.ms`).",
        'group "billing" was not left cleanly: no connection to a broker',
    ),
    "offset.done_ahead": Entry(
        "At the stop, processed records were behind records that are not processed. Only a contiguous prefix can "
        "be committed.",
        "Set `offset_map=True`, which keeps them in the metadata of commits, or make handlers idempotent.",
        "12 processed records are behind records that are not, and will be processed again: orders[3]",
    ),
    "offset.commit_failed": Entry(
        "The coordinator refused a commit, or was not reachable.",
        "One line is harmless: a later commit covers it. If it goes on: the member was removed, or it lacks Read "
        "on the group.",
        "orders[3]: offset 18 was not committed: the offset could not be committed in time: no answer",
    ),
    "offset.metadata_refused": Entry(
        "The brokers allow less metadata in a commit than the map of records processed ahead needs.",
        "Raise `offset.metadata.max.bytes` of the brokers to 4096.",
        "the broker rejects 3012 bytes of offset metadata: commits continue without the map of records processed "
        "beyond the offset, so a restart processes those records again; raise the brokers' "
        "offset.metadata.max.bytes to 4096",
    ),
    "offset.reset": Entry(
        "The position is not in the log: retention deleted its records, or the topic was created again.",
        "If records were lost: raise `retention.ms`, or process faster. Set `auto.offset.reset` to `none` to stop "
        "instead.",
        "orders[3]: offset 17 is not in the log, which reaches from 1000 to 5000; auto.offset.reset continues at 1000",
    ),
    "topics.matched": Entry(
        "No topic has a name that a pattern of the subscription matches.",
        "Create the topic, or correct the pattern. A pattern matches whole names: `^orders` stands for the topic "
        "`orders` alone, `^orders.*` for all that begin so. Without Describe on a topic, brokers do not name it.",
        "no topic matches ^orders: waiting for the first one; a pattern matches whole names, so ^orders.* is for all "
        "that begin with orders",
    ),
    "queue.locks_lost": Entry(
        "A handler ran longer than the lock of its record and the lock could not be renewed, the process stood still "
        "for that time, or the leader of the partition was restarted or moved: locks are not replicated.",
        "One line after a broker restart is harmless, if handlers may see a record twice. If it goes on: raise "
        "`share.record.lock.duration.ms` of the group, and look for handlers that hold the GIL.",
        "tasks[1]: the lock of 1 record from offset 17 on had ended before the acknowledgement, so it is delivered "
        "again; handlers may run longer than share.record.lock.duration.ms, or the leader was restarted",
    ),
    "queue.no_renewal": Entry(
        "Brokers before Kafka 4.2 cannot renew the lock of a record, and a handler has run for half of its time.",
        "Raise `share.record.lock.duration.ms` of the group above the longest run of a handler, or upgrade the "
        "brokers.",
        "broker 1 cannot renew the locks of records (Kafka 4.2 can): a record whose handler runs longer than 30 s is "
        "delivered again meanwhile; raise share.record.lock.duration.ms of the group, or upgrade the brokers",
    ),
    "queue.bad_response": Entry(
        "A broker or a proxy sends responses that contradict themselves.",
        "Look for the version and the log of the broker. The records are delivered again when their locks end.",
        "a ShareFetch response of broker 1 names acquired records that overlap or are too many; it is ignored, and the "
        "records are delivered again when their locks end",
    ),
    "broker.disconnected": Entry(
        "A connection to a broker broke: the broker restarts, or the network or a proxy cut it.",
        "One line is harmless: the client connects again. Many lines: see the log of the broker and the idle "
        "timeouts of proxies.",
        "lost the fetch connection to broker 2 at kafka-2:9092: connection reset by peer",
    ),
    "broker.connect_failed": Entry(
        "No connection to a broker can be made: it is down, its name does not resolve, or a firewall drops the "
        "packets.",
        "Run `grete doctor`: it shows at which step it fails. If only other brokers than the bootstrap ones fail, "
        "correct `advertised.listeners`.",
        "broker 2 at kafka-2:9092 cannot be reached (attempt 4): cannot connect: Connection refused; the connection is "
        "tried again",
    ),
    "broker.not_kafka": Entry(
        "What listens at this address is no Kafka broker.",
        "Correct `bootstrap.servers`. A Kafka listener with TLS needs `security.protocol=SSL` or `SASL_SSL`.",
        "localhost:8080 answers like an HTTP server; bootstrap.servers needs the port of a broker's Kafka "
        "listener (often 9092)",
    ),
    "broker.tls_failed": Entry(
        "No encrypted connection can be made to any bootstrap address: a certificate is unknown or expired, or "
        "names another host.",
        "Do what the message says; docs/security.md lists all reasons.",
        "no encrypted connection to kafka-1:9093: its certificate was issued by an authority that is not in "
        "ssl.ca.location; the client ends",
    ),
    "broker.login_failed": Entry(
        "A broker refuses the login, or the source of tokens gives none.",
        "Do what the message says; docs/sasl.md describes each mechanism. The line comes once, until a login succeeds.",
        "kafka-1:9093: the broker refused the login by SCRAM-SHA-512 (Authentication failed): check sasl.username "
        "and sasl.password; until a login succeeds, nothing is read or written there",
    ),
    "broker.login_exposed": Entry(
        "`sasl.allow.plaintext` is set, so a password or token goes over the network without encryption.",
        "Use `security.protocol=SASL_SSL`, and remove the setting.",
        "sasl.allow.plaintext is set: PLAIN sends the password without encryption, and everyone on the way to the "
        "brokers can log in with it; use security.protocol=SASL_SSL",
    ),
    "tls.unverified": Entry(
        "A setting switches off a check of the brokers' certificates.",
        "Remove the setting, and give the certificate of the authority in `ssl.ca.location`.",
        "enable.ssl.certificate.verification is false: another server can pretend to be a broker",
    ),
    "tls.reload_failed": Entry(
        "The files of certificates have changed, and the new ones cannot be read or do not belong together.",
        "Repair the files. Connections that exist go on, and new ones use the former files.",
        "ssl.certificate.location: the certificate and the key do not belong together; the former ones are used",
    ),
    "cluster.down": Entry(
        "No known broker can be reached.",
        "Run `grete doctor`. The client goes on trying: nothing is lost before `delivery.timeout.ms`.",
        "none of the 3 known broker addresses can be reached, so calls wait until they time out",
    ),
    "cluster.rebootstrap": Entry(
        "All known brokers are gone, so the client asks the addresses of `bootstrap.servers` again.",
        "Nothing, if the brokers were replaced. Otherwise as for `cluster.down`.",
        "connecting to the addresses of bootstrap.servers again (NoBrokerReachable)",
    ),
    "topic.unknown": Entry(
        "A topic that the App reads does not exist, does not exist yet, or may not be seen by this client.",
        "Create it with `grete topics create`, correct its name, or create the ACL that the line names. The App reads "
        "the topic as soon as it is there.",
        "topic ordrs does not exist (yet): no member is assigned its partitions",
    ),
    "topic.error": Entry(
        "Brokers answer a question about a topic with an error.",
        "Read the error: most often the topic does not exist yet, or its leaders are being elected. Without Describe, "
        "brokers do not say whether the topic exists, and the line has the command that creates the ACL.",
        "topic orders does not exist (yet) (UNKNOWN_TOPIC_OR_PARTITION): metadata is requested again",
    ),
    "topic.missing": Entry(
        "The topic of `dead_letter=` or `publish=` does not exist. It is looked up again every 30 s.",
        "Create the topic now, before a record needs it, or set `dead_letter_create`.",
        'topic "orders.dlq", the dead_letter topic of charge, does not exist; create it (grete topics create '
        "orders.dlq --partitions 4 --config retention.ms=-1)",
    ),
    "topic.recreated": Entry(
        "A topic was deleted and created again under the same name. Offsets of the old one mean nothing.",
        "Nothing, if it was on purpose: `auto.offset.reset` decides where the App goes on.",
        "topic orders was deleted and created again: its old offsets are no longer valid",
    ),
    "partition.unknown": Entry(
        "A route names partitions that its topic does not have.",
        "Correct the list of partitions, or add partitions with `grete topics alter`. In an App the error ends "
        "the App.",
        "topic orders has 4 partitions, numbered from 0, and 7 is not among them: correct the list, or add "
        "partitions to the topic",
    ),
    "partition.stalled": Entry(
        "No record of the partition was handed out or processed for `stall_after` (30 s), although records wait. The "
        "line names the reason.",
        "[Stalls](../stalls.md) has each reason, and what ends it. `partition.moving` follows when the partition moves "
        "again.",
        "orders[3] has not moved for 30.4 s: attempt 7 at offset 17 begins in 12.3 s; 120 records of charge wait",
    ),
    "partition.failed": Entry(
        "A partition cannot be read. `reason` is one word; the other partitions go on.",
        "Do what the line says. docs/failed-partitions.md lists all reasons and what heals them.",
        "orders[3] has no leader: start the brokers that have its replicas, or create its topic again if that was "
        "deleted; it is retried until the cause is gone, and the other partitions continue",
    ),
    "position.waiting": Entry(
        "The client does not know yet where to begin in a partition, because no broker answers about its offsets.",
        "See `broker.*` lines. After 30 s the partition counts as failed.",
        "orders[3]: no offset to start from after 10 s; retrying (NOT_LEADER_OR_FOLLOWER)",
    ),
    "fetch.corrupt_batch": Entry(
        "A batch has a wrong checksum or content. It is fetched once more.",
        "If `partition.failed` follows, the replica is damaged: see the log and the disk of the broker.",
        "orders[3]: the batch at offset 4120 is corrupt (its checksum or its content is wrong); it is fetched "
        "once more",
    ),
    "fetch.bad_response": Entry(
        "A response of a broker cannot be decoded: something on the way changes bytes, or it is a defect of Grete.",
        "See whether a proxy lies between. Otherwise please report it with the version of the brokers.",
        "a Fetch response of broker 2 cannot be decoded: a length of 1869770784 is beyond the end",
    ),
    "fetch.replica_unreachable": Entry(
        "The follower in the consumer's rack (`client.rack`) died, hangs or cannot be reached from here. The leaders "
        "of its partitions are read, which may cost money between zones, until the follower is named again, after 30 s "
        "at the earliest.",
        "See whether that broker runs, and whether its advertised listener can be reached from the consumer's zone.",
        "broker 2, from which 8 partitions were read as a follower, does not answer; the partitions are read from "
        "their leaders until the follower is named again",
    ),
    "log.truncated": Entry(
        "A replica that was behind became leader, and records after its end are lost (unclean leader election).",
        "Set `unclean.leader.election.enable=false` and `min.insync.replicas=2` for topics that must not lose records.",
        "orders[3]: an unclean leader election truncated the log below offset 4120; continuing at 4003",
    ),
}
