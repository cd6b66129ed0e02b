//! Rules of one field: the versions that have it, and its form on the wire.

use super::value::Form;

/// Rules of one field, made from the modifiers of its row: `since 3, ignorable` becomes
/// `FieldRule::PLAIN.since(3).ignorable()`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FieldRule {
    first: i16,
    last: i16,
    nullable_from: i16,
    tag: Option<u32>,
    ignorable: bool,
    classic: bool,
}

impl FieldRule {
    /// Rules of a field without modifiers: every version has it, in its place between the other fields.
    pub(crate) const PLAIN: Self =
        Self { first: i16::MIN, last: i16::MAX, nullable_from: i16::MIN, tag: None, ignorable: false, classic: false };

    /// Sets the first version that has the field.
    pub(crate) const fn since(self, version: i16) -> Self {
        Self { first: version, ..self }
    }

    /// Sets the last version that has the field.
    pub(crate) const fn until(self, version: i16) -> Self {
        Self { last: version, ..self }
    }

    /// Sets the first version in which the field can be null. Without this modifier, an `Option` can be null in every
    /// version.
    pub(crate) const fn nullable_since(self, version: i16) -> Self {
        Self { nullable_from: version, ..self }
    }

    /// Makes the field a tagged field (KIP-482).
    pub(crate) const fn tag(self, tag: u32) -> Self {
        Self { tag: Some(tag), ..self }
    }

    /// Drops the value in versions without the field. Otherwise, encoding fails unless the value is the default.
    pub(crate) const fn ignorable(self) -> Self {
        Self { ignorable: true, ..self }
    }

    /// Keeps the classic form in flexible versions.
    pub(crate) const fn classic(self) -> Self {
        Self { classic: true, ..self }
    }

    /// Returns whether the version has the field, tagged or not.
    #[inline(always)]
    pub(crate) const fn exists(self, version: i16) -> bool {
        self.first <= version && version <= self.last
    }

    /// Returns whether the version has the field outside the section of tagged fields.
    #[inline(always)]
    pub(crate) const fn is_inline(self, version: i16) -> bool {
        self.tag.is_none() && self.exists(version)
    }

    /// Returns whether the version has the field as a tagged field.
    #[inline(always)]
    pub(crate) const fn is_tagged(self, version: i16) -> bool {
        self.tag.is_some() && self.exists(version)
    }

    /// Returns whether the version has the field under this tag.
    #[inline(always)]
    pub(crate) const fn has_tag(self, tag: u32, version: i16) -> bool {
        matches!(self.tag, Some(own) if own == tag) && self.exists(version)
    }

    /// Returns the tag, or 0 for a field without one.
    #[inline(always)]
    pub(crate) const fn tag_number(self) -> u32 {
        match self.tag {
            Some(tag) => tag,
            None => 0,
        }
    }

    /// Returns whether encoding must fail if the value is not the default.
    #[inline(always)]
    pub(crate) const fn must_be_default(self, version: i16) -> bool {
        !self.ignorable && !self.exists(version)
    }

    /// Returns the form of the field's value in a struct of that form.
    #[inline(always)]
    pub(crate) const fn form(self, parent: Form) -> Form {
        Form {
            version: parent.version,
            flexible: parent.flexible && !self.classic,
            nullable: self.nullable_from <= parent.version,
        }
    }
}
