//! Rules that tests may take away, to show that they are needed: through the very code that runs in
//! production, and only in builds with the cargo feature `sabotage`. Without it nothing can be taken
//! away, and every question below is answered at compile time. With it nothing is taken away either,
//! unless a test says so in the environment that it gives to a daemon: no setting, variable or
//! message reaches this.

/// A rule, named by what happens without it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
pub enum Rule {
    /// A taskmanager obeys messages of epochs that are over (fence F1).
    ObeyAnyEpoch,
    /// Tasks are deployed under a claim that waited for slots, without another look at the chain.
    DeployUnconfirmed,
    /// An acknowledgement counts whatever epoch and attempt it is of (fence F1, I9).
    AcceptAnyEpoch,
    /// An entry of the chain is written over whatever is there (fence F2).
    OverwriteEntry,
    /// An owner that restarts its job appends no CLAIM (fence F3): claims are per leader only.
    RestartWithoutClaim,
    /// An owner whose slot is taken appends after it instead of stepping down (fence F4): a store
    /// write without compare-and-swap.
    AppendAfterForeign,
    /// A write of unknown outcome is taken to have happened (fence F4).
    AssumeHappened,
    /// An append is announced when it is sent (fence F5).
    AnnounceBeforeDurable,
    /// Completion is announced when the chain's entry is sent, not when it is durable (fence F5).
    NotifyBeforeDurable,
    /// Entries of the chain are deleted without a BOUNDARY above them (fence F6).
    PruneWithoutBoundary,
    /// Entries below a BOUNDARY are deleted while a listing may not show it yet (fence F6).
    PruneAtOnce,
    /// Who created an entry does not look whether the chain went on above it (fence F6).
    NeverLookAbove,
    /// Tasks of a new epoch start beside those of the old one (fence F7).
    StartBesideOld,
    /// A data channel is taken whatever epoch, life and token its sender has (fence F8).
    TalkToAnyEpoch,
    /// Names of objects have no nonce (fence F9).
    NameWithoutNonce,
    /// A claim hands out checkpoint ids again that an earlier epoch had.
    ReuseCheckpointIds,
    /// Transactions of a sink are named by their place in the attempt alone (fence F12).
    ReuseTransactions,
    /// A restored sink aborts what it finds before it commits what was promised (fence F13).
    AbortBeforeCommit,
    /// A restored sink writes before it committed what was promised (fence F13).
    WriteBeforeCommit,
}

/// The rules taken away. None, unless a test says so.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash, Default)]
pub struct Sabotage {
    #[cfg(feature = "sabotage")]
    removed: u32,
}

impl Sabotage {
    /// Takes these rules away.
    #[cfg(feature = "sabotage")]
    pub fn removing(rules: &[Rule]) -> Self {
        let bits = rules.iter().map(|rule| 1 << *rule as u32);
        Self {
            removed: bits.fold(0, |all, bit| all | bit),
        }
    }

    /// Whether this rule does not hold.
    #[cfg(feature = "sabotage")]
    pub const fn removed(self, rule: Rule) -> bool {
        self.removed & 1 << rule as u32 != 0
    }

    /// Whether this rule does not hold.
    #[cfg(not(feature = "sabotage"))]
    pub const fn removed(self, _: Rule) -> bool {
        false
    }
}

#[cfg(all(test, feature = "sabotage"))]
mod tests {
    use super::*;

    #[test]
    fn a_rule_is_gone_when_it_was_taken_away_and_no_other_is() {
        let sabotage = Sabotage::removing(&[Rule::ObeyAnyEpoch, Rule::WriteBeforeCommit]);
        assert!(sabotage.removed(Rule::ObeyAnyEpoch) && sabotage.removed(Rule::WriteBeforeCommit));
        assert!(!sabotage.removed(Rule::AcceptAnyEpoch));
        assert!(!Sabotage::default().removed(Rule::ObeyAnyEpoch));
    }
}
