//! Rules that make responses comparable. Each rule is a deliberate difference or a fact of one broker:
//!
//! | rule | reason |
//! |---|---|
//! | topic, member, producer and session ids: number in the order of appearance | the broker draws them |
//! | hosts, ports, cluster id, log directory, disk space, epoch of the features | facts of one broker |
//! | documentation of configs | Grete's broker has none |
//! | APIs and features that Grete's broker does not have | [`crate::versions`] compares them once |
//! | internal topics | Grete's broker keeps groups and transactions without topics |
//! | times after the start of the run | the two brokers append at different times |
//! | texts of errors: only whether there is one; empty is none | wording is no protocol |
//! | texts of errors in Produce: may be there where Kafka has none | Grete's broker says more often why it refuses records |
//! | order in lists of structs, of subscribed topics, and of the partitions of a transaction | Kafka's hash maps have none; batches in a partition keep their order |
//! | logs with offset lag -1 in log directories | Kafka deletes the log of a deleted partition a moment later |
//! | topics, groups, transactions and ACLs of other runs in lists of everything | seeds share one broker |
//! | incomplete batch at the end of a fetched partition | clients skip it; Kafka cuts a file at the limit |

use grete_wire::ApiKey;

use crate::side::{Side, UNKNOWN_PRODUCER};
use crate::tree::Tree;

/// Makes a response comparable.
pub fn normalize(api: ApiKey, response: &Tree, side: &mut Side) -> Tree {
    let mut tree = response.clone();
    drop_foreign(api, &mut tree, side);
    sort(&mut tree, side);
    rename("", &mut tree, side, true);
    tree
}

fn sort_partitions(topic: &mut Tree) {
    let Tree::Struct(fields) = topic else { return };
    for (_, value) in fields {
        if let Tree::List(partitions) = value {
            partitions.sort();
        }
    }
}

/// Drops texts of errors that only Grete's broker gives, in a Produce response: where Kafka has a text, there must be one.
pub fn drop_extra_texts(api: ApiKey, grete: &mut Tree, kafka: &Tree) {
    if api != ApiKey::Produce {
        return;
    }
    match (grete, kafka) {
        (Tree::Struct(grete), Tree::Struct(kafka)) => {
            for ((name, grete), (_, kafka)) in grete.iter_mut().zip(kafka) {
                match name.as_str() {
                    "error_message" if matches!(kafka, Tree::Atom(text) if text == "None") => *grete = kafka.clone(),
                    _ => drop_extra_texts(api, grete, kafka),
                }
            }
        }
        (Tree::List(grete), Tree::List(kafka)) => {
            grete.iter_mut().zip(kafka).for_each(|(grete, kafka)| drop_extra_texts(api, grete, kafka));
        }
        _ => {}
    }
}

/// Removes what belongs to other runs from lists of everything.
fn drop_foreign(api: ApiKey, tree: &mut Tree, side: &Side) {
    let (list, name) = match api {
        ApiKey::Metadata | ApiKey::DescribeTopicPartitions => ("topics", "name"),
        ApiKey::ListGroups => ("groups", "group_id"),
        ApiKey::ListTransactions => ("transaction_states", "transactional_id"),
        ApiKey::ApiVersions => {
            let Tree::Struct(fields) = tree else { return };
            for (field, value) in fields {
                let Tree::List(list) = value else { continue };
                let is_known = |key: i128| i16::try_from(key).is_ok_and(|key| ApiKey::try_from(key).is_ok());
                match &**field {
                    "api_keys" => list.retain(|api| {
                        let key = api.number("api_key").unwrap_or(-1);
                        // Logins.
                        is_known(key) && ![17, 36, 66].contains(&key)
                    }),
                    _ => list.retain(|feature| {
                        feature.text("name").is_some_and(|name| {
                            ["metadata.version", "transaction.version", "group.version", "share.version"]
                                .contains(&name)
                        })
                    }),
                }
            }
            return;
        }
        ApiKey::DescribeAcls | ApiKey::DeleteAcls => return drop_foreign_acls(tree, side),
        ApiKey::DescribeTransactions => {
            let Tree::Struct(fields) = tree else { return };
            for (_, value) in fields {
                let Tree::List(states) = value else { continue };
                for state in states {
                    let Tree::Struct(fields) = state else { continue };
                    for (field, value) in fields {
                        if let (Tree::List(topics), "topics") = (value, &**field) {
                            topics.retain(|topic| topic.text("topic").is_none_or(|name| !name.starts_with("__")));
                            topics.iter_mut().for_each(sort_partitions);
                        }
                    }
                }
            }
            return;
        }
        ApiKey::DescribeLogDirs => {
            let Tree::Struct(fields) = tree else { return };
            for (_, value) in fields {
                let Tree::List(results) = value else { continue };
                results.iter_mut().for_each(|result| retain(result, "topics", "name", side));
                results.iter_mut().for_each(drop_deleted_logs);
            }
            return;
        }
        _ => return,
    };
    retain(tree, list, name, side);
}

/// Removes the ACLs of other runs, which their principals show, and resources that have none else.
fn drop_foreign_acls(tree: &mut Tree, side: &Side) {
    let Tree::Struct(fields) = tree else { return };
    for (field, value) in fields {
        let Tree::List(list) = value else { continue };
        for element in list.iter_mut() {
            let Tree::Struct(fields) = element else { continue };
            for (field, acls) in fields {
                if let (Tree::List(acls), "acls" | "matching_acls") = (acls, &**field) {
                    acls.retain(|acl| acl.text("principal").is_some_and(|name| name.contains(&side.run)));
                }
            }
        }
        if field == "resources" {
            list.retain(|resource| !resource.list("acls").is_empty());
        }
    }
}

/// Removes the logs whose partition is deleted already, and topics that have none else.
fn drop_deleted_logs(result: &mut Tree) {
    let Tree::Struct(fields) = result else { return };
    let Some((_, Tree::List(topics))) = fields.iter_mut().find(|(name, _)| name == "topics") else { return };
    topics.retain_mut(|topic| {
        let Tree::Struct(fields) = topic else { return true };
        let Some((_, Tree::List(logs))) = fields.iter_mut().find(|(name, _)| name == "partitions") else { return true };
        logs.retain(|log| log.number("offset_lag") != Some(-1));
        !logs.is_empty()
    });
}

fn retain(tree: &mut Tree, list: &str, name: &str, side: &Side) {
    let Tree::Struct(fields) = tree else { return };
    for (field, value) in fields {
        if let Tree::List(elements) = value
            && field == list
        {
            elements.retain(|element| {
                element.number("error_code").unwrap_or(0) != 0
                    || element.text(name).is_some_and(|name| name.starts_with(&side.run))
            });
        }
    }
}

/// Sorts the lists of structs by what is known of them.
fn sort(tree: &mut Tree, side: &mut Side) {
    match tree {
        Tree::Struct(fields) => fields.iter_mut().for_each(|(name, value)| match value {
            Tree::List(topics) if name == "subscribed_topic_names" => topics.sort(),
            _ => sort(value, side),
        }),
        Tree::List(list) => {
            list.iter_mut().for_each(|value| sort(value, side));
            if list.iter().all(|value| matches!(value, Tree::Struct(_))) {
                list.sort_by_cached_key(|value| {
                    let mut key = value.clone();
                    rename("", &mut key, side, false);
                    key
                });
            }
        }
        _ => {}
    }
}

fn rename(field: &str, tree: &mut Tree, side: &mut Side, may_add: bool) {
    let number = tree.as_number();
    let alias = |side: &mut Side, kind| number.map(|id| side.alias(kind, &id.to_string(), may_add));
    let renamed = match (field, &*tree) {
        ("host" | "cluster_id" | "log_dir", Tree::Text(text)) if !text.is_empty() => Some("_".to_owned()),
        ("port", _) if number.is_some_and(|n| n > 0) => Some("_".to_owned()),
        ("total_bytes" | "usable_bytes" | "documentation" | "finalized_features_epoch", _) => Some("_".to_owned()),
        ("error_message" | "acknowledge_error_message" | "batch_index_error_message", Tree::Text(text)) => {
            Some(if text.is_empty() { "None" } else { "text" }.to_owned())
        }
        ("topic_id", _) if number.is_some_and(|n| !(0..=0xffff).contains(&n)) => alias(side, "T"),
        ("session_id", _) if number.is_some_and(|n| n > 0) => alias(side, "S"),
        ("producer_id", _) if number.is_some_and(|n| (1..i128::from(UNKNOWN_PRODUCER)).contains(&n)) => {
            alias(side, "P")
        }
        ("member_id" | "leader", Tree::Text(id)) if is_generated(id) => {
            let id = id.clone();
            Some(side.alias("M", &id, may_add))
        }
        (
            "log_append_time_ms"
            | "timestamp"
            | "last_timestamp"
            | "transaction_start_time_ms"
            | "max_timestamp"
            | "base_timestamp",
            _,
        ) if number.is_some_and(|n| n >= i128::from(side.start)) => Some("time".to_owned()),
        ("records", Tree::List(_)) => {
            *tree = batches(tree);
            None
        }
        _ => None,
    };
    if let Some(renamed) = renamed {
        *tree = Tree::Atom(renamed);
        return;
    }
    match tree {
        Tree::Struct(fields) => fields.iter_mut().for_each(|(name, value)| {
            // Names of fields are constants of the messages.
            rename(&name.clone(), value, side, may_add);
        }),
        Tree::List(list) => list.iter_mut().for_each(|value| rename(field_of_element(field), value, side, may_add)),
        _ => {}
    }
}

fn field_of_element(field: &str) -> &str {
    if field == "records" { "" } else { field }
}

/// Whether a broker made this member id: it ends with a UUID.
fn is_generated(id: &str) -> bool {
    id.len() > 36
        && id.is_char_boundary(id.len() - 36)
        && id[id.len() - 36..].bytes().filter(|&b| b == b'-').count() == 4
}

/// Splits records into the headers and bytes of their batches.
fn batches(records: &Tree) -> Tree {
    let Tree::List(list) = records else { return records.clone() };
    let bytes: Vec<u8> = list.iter().filter_map(|byte| byte.as_number().map(|byte| byte as u8)).collect();
    let mut batches = Vec::new();
    let mut rest = &bytes[..];
    while let Some(length) = rest.get(8..12) {
        let end = 12 + u32::from_be_bytes(length.try_into().expect("four bytes")) as usize;
        let Some(batch) = rest.get(..end) else { break };
        let number = |at: usize, len: usize| {
            let mut bytes = if batch[at] & 0x80 == 0 { [0; 8] } else { [0xff; 8] };
            bytes[8 - len..].copy_from_slice(&batch[at..at + len]);
            Tree::Atom(i64::from_be_bytes(bytes).to_string())
        };
        let attributes = i16::from_be_bytes([batch[21], batch[22]]);
        let (is_control, is_append_time) = (attributes & 0x20 != 0, attributes & 0x08 != 0);
        // A marker holds the coordinator's epoch; the payload of others is as it was sent.
        let payload = if is_control { &batch[61..end - 5] } else { &batch[61..] };
        let time = |at| if is_control || is_append_time { Tree::Atom("time".into()) } else { number(at, 8) };
        batches.push(Tree::Struct(vec![
            ("base_offset".into(), number(0, 8)),
            ("leader_epoch".into(), number(12, 4)),
            ("attributes".into(), number(21, 2)),
            ("last_offset_delta".into(), number(23, 4)),
            ("base_timestamp".into(), if is_control { Tree::Atom("time".into()) } else { number(27, 8) }),
            ("max_timestamp".into(), time(35)),
            ("producer_id".into(), number(43, 8)),
            ("producer_epoch".into(), number(51, 2)),
            ("base_sequence".into(), number(53, 4)),
            ("count".into(), number(57, 4)),
            ("payload".into(), Tree::Text(payload.iter().map(|byte| format!("{byte:02x}")).collect())),
        ]));
        rest = &rest[end..];
    }
    Tree::List(batches)
}
