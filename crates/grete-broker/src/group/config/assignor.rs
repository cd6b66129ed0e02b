//! Names of the coordinator's assignors.

/// Assignor of the coordinator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Assignor {
    /// Numbers of partitions as equal as the subscriptions allow. Members keep what they have as far as possible.
    Uniform,
    /// Consecutive partitions of each topic. Members keep what they have as far as possible.
    Range,
}

impl Assignor {
    /// All assignors, in Kafka's order.
    pub const ALL: [Self; 2] = [Self::Uniform, Self::Range];

    /// Returns the name in requests.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "uniform",
            Self::Range => "range",
        }
    }

    /// Returns the assignor of a name, or of the name of Kafka's class. `None`: there is no such assignor.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        let class = |assignor: Self| match assignor {
            Self::Uniform => "org.apache.kafka.coordinator.group.assignor.UniformAssignor",
            Self::Range => "org.apache.kafka.coordinator.group.assignor.RangeAssignor",
        };
        Self::ALL.into_iter().find(|known| known.name() == name || class(*known) == name)
    }
}

#[cfg(test)]
mod tests {
    use super::Assignor;

    #[test]
    fn names_are_kafkas() {
        assert_eq!(Assignor::from_name("uniform"), Some(Assignor::Uniform));
        let class = "org.apache.kafka.coordinator.group.assignor.RangeAssignor";
        assert_eq!(Assignor::from_name(class), Some(Assignor::Range));
        assert_eq!(Assignor::from_name("sticky"), None);
    }
}
