//! Rules that tests may take away, to show that they are needed. Without the cargo feature
//! `sabotage` nothing can be taken away and every question below is answered at compile time.

/// A rule of the coordinator, named by what happens without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(not(feature = "sabotage"), allow(dead_code, unreachable_pub))]
pub enum Rule {
    /// Completion is announced when the chain's entry is sent, not when it is durable (fence F5).
    NotifyBeforeDurable,
    /// An acknowledgement counts whatever epoch and attempt it is of (I9).
    AcceptAnyEpoch,
}

/// The rules taken away. None, unless a test says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Sabotage {
    #[cfg(feature = "sabotage")]
    removed: u8,
}

impl Sabotage {
    /// Takes these rules away.
    #[cfg(feature = "sabotage")]
    pub fn removing(rules: &[Rule]) -> Self {
        let bits = rules.iter().map(|rule| 1 << *rule as u8);
        Self {
            removed: bits.fold(0, |all, bit| all | bit),
        }
    }

    #[cfg(feature = "sabotage")]
    pub(super) const fn removed(self, rule: Rule) -> bool {
        self.removed & (1 << rule as u8) != 0
    }

    #[cfg(not(feature = "sabotage"))]
    pub(super) const fn removed(self, _: Rule) -> bool {
        false
    }
}
