//! Decisions and filters, beside what Kafka's `StandardAuthorizer` says.

use super::*;

const ALICE: (&str, &str) = ("User:alice", "10.0.0.1");

fn acl(text: &str) -> Acl {
    let mut words = text.split(' ');
    let mut next = || words.next().unwrap();
    let permission = if next() == "allow" { Permission::Allow } else { Permission::Deny };
    let principal = next().into();
    let operation = match next() {
        "all" => Operation::All,
        "read" => Operation::Read,
        "write" => Operation::Write,
        "alter" => Operation::Alter,
        "delete" => Operation::Delete,
        "create" => Operation::Create,
        "describe" => Operation::Describe,
        "alter-configs" => Operation::AlterConfigs,
        other => panic!("{other}"),
    };
    let resource_type = if next() == "topic" { ResourceType::Topic } else { ResourceType::Group };
    let pattern = if next() == "literal" { PatternType::Literal } else { PatternType::Prefixed };
    let name = next().into();
    let host = words.next().unwrap_or("*").into();
    Acl { resource_type, name, pattern, principal, host, operation, permission }
}

fn authorizer(acls: &[&str]) -> Authorizer {
    let mut authorizer = Authorizer::default();
    acls.iter().for_each(|text| authorizer.apply(&AclChange::Created(acl(text))));
    authorizer
}

fn may(acls: &[&str], operation: Operation, name: &str) -> bool {
    authorizer(acls).is_allowed(&AclConfig::default(), ALICE, operation, ResourceType::Topic, name)
}

#[test]
fn an_operation_needs_an_acl_that_allows_it() {
    assert!(!may(&[], Operation::Read, "orders"));
    assert!(may(&["allow User:alice read topic literal orders"], Operation::Read, "orders"));
    assert!(!may(&["allow User:alice read topic literal orders"], Operation::Write, "orders"));
    assert!(!may(&["allow User:alice read topic literal orders"], Operation::Read, "orders2"));
    assert!(!may(&["allow User:bob read topic literal orders"], Operation::Read, "orders"));
    assert!(!may(&["allow User:alice read group literal orders"], Operation::Read, "orders"));
    assert!(may(&["allow User:* all topic literal *"], Operation::Alter, "orders"));
    assert!(may(&["allow User:alice read topic prefixed or"], Operation::Read, "orders"));
    assert!(may(&["allow User:alice read topic prefixed \u{fc}b"], Operation::Read, "\u{fc}ber"));
    assert!(!may(&["allow User:alice read topic prefixed orders2"], Operation::Read, "orders"));
    assert!(may(&["allow User:alice read topic literal orders 10.0.0.1"], Operation::Read, "orders"));
    assert!(!may(&["allow User:alice read topic literal orders 10.0.0.2"], Operation::Read, "orders"));
}

#[test]
fn a_prefix_of_a_star_is_no_wildcard() {
    assert!(!may(&["allow User:alice read topic prefixed *"], Operation::Read, "orders"));
    assert!(may(&["allow User:alice read topic literal *"], Operation::Read, "*"));
}

#[test]
fn some_operations_imply_describe() {
    for operation in ["read", "write", "delete", "alter"] {
        let allowed = format!("allow User:alice {operation} topic literal orders");
        assert!(may(&[&allowed], Operation::Describe, "orders"), "{operation}");
        // An ACL that denies implies nothing.
        let denied = format!("deny User:alice {operation} topic literal orders");
        let acls = ["allow User:alice describe topic literal orders", &denied];
        assert!(may(&acls, Operation::Describe, "orders"), "{operation}");
    }
    assert!(!may(&["allow User:alice create topic literal orders"], Operation::Describe, "orders"));
    assert!(may(&["allow User:alice alter-configs topic literal orders"], Operation::DescribeConfigs, "orders"));
    assert!(!may(&["allow User:alice alter-configs topic literal orders"], Operation::Describe, "orders"));
}

#[test]
fn an_acl_that_denies_wins_wherever_it_stands() {
    let allow = "allow User:alice all topic literal orders";
    for deny in [
        "deny User:alice read topic literal orders",
        "deny User:* read topic prefixed o",
        "deny User:alice all topic literal *",
        "deny User:* all topic literal orders 10.0.0.1",
    ] {
        assert!(!may(&[allow, deny], Operation::Read, "orders"), "{deny}");
    }
    assert!(may(&[allow, "deny User:alice write topic literal orders"], Operation::Read, "orders"));
}

#[test]
fn super_users_may_do_everything_and_uncovered_resources_can_be_open() {
    let authorizer = authorizer(&["deny User:* all topic literal orders"]);
    let ask = |config: &AclConfig, name: &str| {
        authorizer.is_allowed(config, ALICE, Operation::Read, ResourceType::Topic, name)
    };
    let open = AclConfig { allow_everyone_if_no_acl_found: true, ..AclConfig::default() };
    assert!(ask(&open, "invoices") && !ask(&open, "orders") && !ask(&AclConfig::default(), "invoices"));
    let admin = AclConfig { super_users: ["User:alice".to_owned()].into(), ..AclConfig::default() };
    assert!(ask(&admin, "orders"));
}

#[test]
fn any_resource_counts_unless_an_acl_denies_all_of_it() {
    let any = |acls: &[&str]| {
        authorizer(acls).is_allowed_on_any(&AclConfig::default(), ALICE, Operation::Write, ResourceType::Topic)
    };
    let orders = "allow User:alice write topic literal orders";
    assert!(!any(&[]) && any(&[orders]) && any(&["allow User:* all topic prefixed o"]));
    assert!(!any(&["allow User:alice read topic literal orders"]));
    assert!(!any(&[orders, "deny User:alice write topic literal orders"]));
    assert!(!any(&[orders, "deny User:* write topic prefixed ord"]));
    assert!(!any(&[orders, "deny User:alice all topic literal *"]));
    assert!(any(&[orders, "deny User:alice write topic literal invoices"]));
    assert!(any(&["allow User:alice write topic prefixed o", "deny User:alice write topic literal o"]));
}

#[test]
fn filters_find_what_kafkas_filters_find() {
    let authorizer = authorizer(&[
        "allow User:alice read topic literal orders",
        "allow User:* read topic literal *",
        "deny User:alice write topic prefixed ord",
        "allow User:bob read group literal orders",
    ]);
    let any = AclFilter {
        resource_type: 1,
        name: None,
        pattern: 1,
        principal: None,
        host: None,
        operation: 1,
        permission: 1,
    };
    let found = |filter: AclFilter<'_>| authorizer.found_by(&filter).len();
    assert_eq!(found(any.clone()), 4);
    assert_eq!(found(AclFilter { name: Some("orders"), ..any.clone() }), 2);
    assert_eq!(found(AclFilter { name: Some("orders"), pattern: 2, ..any.clone() }), 4);
    assert_eq!(found(AclFilter { name: Some("orders"), pattern: 2, resource_type: 2, ..any.clone() }), 3);
    assert_eq!(found(AclFilter { name: Some("ord"), pattern: 4, ..any.clone() }), 1);
    assert_eq!(found(AclFilter { pattern: 3, ..any.clone() }), 3);
    assert_eq!(found(AclFilter { name: Some("*"), pattern: 3, ..any.clone() }), 1);
    assert_eq!(found(AclFilter { principal: Some("User:alice"), ..any.clone() }), 2);
    assert_eq!(found(AclFilter { operation: 3, permission: 3, ..any.clone() }), 3);
    assert_eq!(found(AclFilter { operation: 8, ..any.clone() }), 0, "operations are not implied");
    assert!(!any.has_unknown() && AclFilter { pattern: 0, ..any.clone() }.has_unknown());
    assert!(AclFilter { operation: 99, ..any }.has_unknown());
}

#[test]
fn a_deleted_acl_is_gone() {
    let mut authorizer = authorizer(&["allow User:alice read topic literal orders"]);
    let gone = AclChange::Deleted(acl("allow User:alice read topic literal orders"));
    authorizer.apply(&gone);
    authorizer.apply(&gone);
    assert!(authorizer.is_empty());
}
