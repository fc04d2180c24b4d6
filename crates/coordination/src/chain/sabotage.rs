//! Rules that tests may take away, to show that they are needed. Without the cargo feature
//! `sabotage` nothing can be taken away and every question below is answered at compile time.

/// A rule of the chain, named by what happens without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[cfg_attr(not(feature = "sabotage"), allow(dead_code, unreachable_pub))]
pub enum Rule {
    /// An owner whose slot is taken appends after it instead of stepping down (fence F4): a store
    /// write without compare-and-swap.
    AppendAfterForeign,
    /// An owner that restarts its job appends no CLAIM (fence F3): claims are per leader only.
    RestartWithoutClaim,
    /// An append is announced when it is sent (fence F5).
    AnnounceBeforeDurable,
    /// A write of unknown outcome is taken to have happened (fence F4).
    AssumeHappened,
    /// A claim hands out checkpoint ids again that an earlier epoch had.
    ReuseCheckpointIds,
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
        let bit = |rule: &Rule| 1 << *rule as u8;
        Self {
            removed: rules.iter().map(bit).fold(0, |all, one| all | one),
        }
    }

    #[cfg(feature = "sabotage")]
    pub(super) const fn removed(self, rule: Rule) -> bool {
        self.removed & 1 << rule as u8 != 0
    }

    #[cfg(not(feature = "sabotage"))]
    pub(super) const fn removed(self, _: Rule) -> bool {
        false
    }
}
