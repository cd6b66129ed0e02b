//! Requests about ACLs.

use grete_wire::ApiKey;
use grete_wire::messages::create_acls::AclCreation;
use grete_wire::messages::delete_acls::DeleteAclsFilter;
use grete_wire::messages::{CreateAclsRequest, DeleteAclsRequest, DescribeAclsRequest};

use super::{Dice, s};
use crate::message::{Ask, ask};
use crate::side::Side;

/// Number of a resource type, pattern type, operation or permission that a filter takes for each of them.
const ANY: i8 = 1;

/// Asks for all ACLs.
pub fn describe_acls(_: &Side) -> Ask {
    let request = DescribeAclsRequest {
        resource_type_filter: ANY,
        pattern_type_filter: ANY,
        operation: ANY,
        permission_type: ANY,
        ..DescribeAclsRequest::default()
    };
    ask(3, &request).expect("encodes")
}

/// Builds a request. `None`: not an API of this file.
pub fn build(api: ApiKey, dice: &mut Dice<'_>, side: &Side) -> Option<Ask> {
    if !matches!(api, ApiKey::DescribeAcls | ApiKey::CreateAcls | ApiKey::DeleteAcls) {
        return None;
    }
    let version = dice.version(api)?;
    match api {
        ApiKey::CreateAcls => {
            let creations = dice.some(3, |dice| creation(dice, side));
            ask(version, &CreateAclsRequest { creations })
        }
        ApiKey::DeleteAcls => {
            let filters = dice.some(3, |dice| filter(dice, side));
            ask(version, &DeleteAclsRequest { filters })
        }
        _ => {
            let filter = filter(dice, side);
            let request = DescribeAclsRequest {
                resource_type_filter: filter.resource_type_filter,
                resource_name_filter: filter.resource_name_filter,
                pattern_type_filter: filter.pattern_type_filter,
                principal_filter: filter.principal_filter,
                host_filter: filter.host_filter,
                operation: filter.operation,
                permission_type: filter.permission_type,
            };
            ask(version, &request)
        }
    }
}

fn creation(dice: &mut Dice<'_>, side: &Side) -> AclCreation<'static> {
    let (resource_type, name) = resource(dice, side);
    AclCreation {
        resource_type,
        resource_name: s(name),
        resource_pattern_type: hostile(dice, &[3, 3, 4], &[0, 1, 2, 5, -1]),
        principal: s(principal(dice, side)),
        host: s(host(dice)),
        operation: hostile(dice, &[2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12], &[0, 1, 13, 14, 15, 16, -1]),
        permission_type: hostile(dice, &[2, 3, 3], &[0, 1, 4, -1]),
    }
}

fn filter(dice: &mut Dice<'_>, side: &Side) -> DeleteAclsFilter<'static> {
    let (resource_type, name) = resource(dice, side);
    DeleteAclsFilter {
        resource_type_filter: if dice.chance(40) { ANY } else { resource_type },
        resource_name_filter: dice.chance(60).then(|| s(name)),
        pattern_type_filter: hostile(dice, &[ANY, ANY, 2, 2, 3, 4], &[0, 5, -1]),
        principal_filter: dice.chance(40).then(|| s(principal(dice, side))),
        host_filter: dice.chance(20).then(|| s(host(dice))),
        operation: hostile(dice, &[ANY, ANY, ANY, ANY, 2, 3, 4, 8], &[0, 13, 16, -1]),
        permission_type: hostile(dice, &[ANY, ANY, ANY, 2, 3], &[0, 4, -1]),
    }
}

/// Returns one of the numbers that have a meaning, or now and then one that has none.
fn hostile(dice: &mut Dice<'_>, valid: &[i8], invalid: &[i8]) -> i8 {
    if dice.chance(4) { dice.pick(invalid) } else { dice.pick(valid) }
}

/// Returns type and name of a resource.
fn resource(dice: &mut Dice<'_>, side: &Side) -> (i8, String) {
    if dice.chance(5) {
        return (dice.pick(&[0, 1, 2, 4, 6, 7, 8, -1]), dice.pick(&[String::new(), "x".into(), "User:bob".into()]));
    }
    let run = &side.run;
    match dice.pick(&[2, 2, 2, 3, 4, 5]) {
        4 => (4, "kafka-cluster".into()),
        kind => {
            (kind, dice.pick(&[format!("{run}t0"), format!("{run}t0"), format!("{run}t"), run.clone(), "*".into()]))
        }
    }
}

/// Returns a principal; those that ACLs can have carry the name of the run.
fn principal(dice: &mut Dice<'_>, side: &Side) -> String {
    if dice.chance(5) {
        return dice.pick(&[String::new(), "alice".into(), ":".into()]);
    }
    format!(
        "{}:{}{}",
        dice.pick(&["User", "User", "User", "Role", ""]),
        side.run,
        dice.pick(&["alice", "alice", "bob", ""])
    )
}

fn host(dice: &mut Dice<'_>) -> &'static str {
    dice.pick(&["*", "*", "*", "127.0.0.1", "somewhere", ""])
}
