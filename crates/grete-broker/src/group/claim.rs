//! Membership that a commit claims.

/// Group and membership that a commit claims.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MemberClaim<'a> {
    /// `group.id`.
    pub group: &'a str,
    /// Generation id. -1: the client is no member; it assigns its partitions itself.
    pub generation: i32,
    /// Member id. Empty: the client is no member.
    pub member_id: &'a str,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<&'a str>,
}
