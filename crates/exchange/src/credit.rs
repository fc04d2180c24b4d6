//! Credits in encoded bytes, per channel.
//!
//! The receiver grants; the sender may send one element of any allowed size while its balance is
//! above zero, and goes into debt for the rest. So an element larger than the window passes, and the
//! receiver never holds more than its window and one element. What was consumed comes back in
//! portions, and at once where the sender would stand still otherwise.

/// A peer that does not keep to its credit. The channel cannot be trusted any more: the attempt fails.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CreditViolation {
    /// An element without credit.
    #[error("the sender sent {bytes} bytes with a balance of {balance}: it must wait for credit")]
    Overrun {
        /// The element's cost.
        bytes: u64,
        /// The balance before it.
        balance: i64,
    },
    /// Grants that no window explains.
    #[error("a grant of {bytes} bytes raises the balance of {balance} beyond what can be counted")]
    Overflow {
        /// The grant.
        bytes: u64,
        /// The balance before it.
        balance: i64,
    },
}

/// The sender's side of one channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderCredit {
    balance: i64,
}

impl SenderCredit {
    /// Without credit, as every channel starts.
    pub fn new() -> Self {
        Self::default()
    }

    /// The receiver granted this much.
    pub fn on_grant(&mut self, bytes: u64) -> Result<(), CreditViolation> {
        let overflow = CreditViolation::Overflow {
            bytes,
            balance: self.balance,
        };
        let granted = i64::try_from(bytes).map_err(|_| overflow)?;
        self.balance = self.balance.checked_add(granted).ok_or(overflow)?;
        Ok(())
    }

    /// Whether an element with a cost may go; one without may always.
    pub fn can_send(&self) -> bool {
        self.balance > 0
    }

    /// Pays for an element that goes now.
    ///
    /// # Panics
    /// If there was no credit for it: the caller asks [`Self::can_send`] first.
    pub fn spend(&mut self, bytes: u64) {
        assert!(bytes == 0 || self.can_send(), "sent without credit");
        self.balance = self.balance.saturating_sub_unsigned(bytes);
    }

    /// What is left; negative in debt.
    pub fn balance(&self) -> i64 {
        self.balance
    }
}

/// The receiver's side of one channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiverCredit {
    window: u64,
    /// The sender's balance as it follows from what was granted and what came.
    balance: i64,
    /// Received and not yet consumed.
    held: u64,
}

impl ReceiverCredit {
    /// A channel that will hold `window` bytes, and one element.
    pub fn new(window: u64) -> Self {
        // Without a byte of window nothing would ever be sent.
        Self {
            window: window.max(1),
            balance: 0,
            held: 0,
        }
    }

    /// The grant that opens the channel.
    #[must_use = "the sender waits for the grant"]
    pub fn open(&mut self) -> u64 {
        self.grant_if_due()
    }

    /// The first frame of an element came, which declares the cost of the whole.
    pub fn on_receive(&mut self, bytes: u64) -> Result<(), CreditViolation> {
        if bytes > 0 && self.balance <= 0 {
            return Err(CreditViolation::Overrun {
                bytes,
                balance: self.balance,
            });
        }
        self.balance = self.balance.saturating_sub_unsigned(bytes);
        self.held += bytes;
        Ok(())
    }

    /// The subtask worked this much off. Returns what to grant now; 0 for nothing.
    #[must_use = "the sender waits for the grant"]
    pub fn on_consume(&mut self, bytes: u64) -> u64 {
        self.held = self.held.saturating_sub(bytes);
        self.grant_if_due()
    }

    /// Another window, as memory and throughput ask for (B19). A smaller one takes effect
    /// as credit is used up. Returns what to grant now.
    #[must_use = "the sender waits for the grant"]
    pub fn resize(&mut self, window: u64) -> u64 {
        self.window = window.max(1);
        self.grant_if_due()
    }

    /// Bytes received and not yet consumed.
    pub fn held(&self) -> u64 {
        self.held
    }

    /// Grants half a window at a time, so that a small element does not cost a message.
    fn grant_if_due(&mut self) -> u64 {
        let wanted = i64::try_from(self.window.saturating_sub(self.held)).unwrap_or(i64::MAX);
        let missing = u64::try_from(wanted.saturating_sub(self.balance)).unwrap_or(0);
        let is_worth_it = self.balance <= 0 || missing >= self.window / 2;
        if wanted == 0 || missing == 0 || !is_worth_it {
            return 0;
        }
        self.balance = wanted;
        missing
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use proptest::prelude::*;

    use super::*;

    const WINDOW: u64 = 256 * 1024;

    /// Proves HND-073.
    #[test]
    fn a_record_of_ten_megabytes_passes_a_window_of_256_kib() {
        let (mut sender, mut receiver) = (SenderCredit::new(), ReceiverCredit::new(WINDOW));
        sender.on_grant(receiver.open()).unwrap();
        assert!(sender.can_send());
        sender.spend(10_000_000);
        receiver.on_receive(10_000_000).unwrap();
        assert!(!sender.can_send());
        // Worked off in slices: credit comes back once it lifts the sender out of its debt.
        assert_eq!(receiver.on_consume(9_000_000), 0);
        sender.on_grant(receiver.on_consume(1_000_000)).unwrap();
        assert_eq!(sender.balance(), WINDOW as i64);
    }

    #[test]
    fn small_elements_share_a_grant() {
        let mut receiver = ReceiverCredit::new(100);
        assert_eq!(receiver.open(), 100);
        for _ in 0..4 {
            receiver.on_receive(10).unwrap();
            assert_eq!(receiver.on_consume(10), 0);
        }
        receiver.on_receive(10).unwrap();
        assert_eq!(receiver.on_consume(10), 50);
    }

    #[test]
    fn a_sender_beyond_its_credit_is_found_out() {
        let mut receiver = ReceiverCredit::new(100);
        let _ = receiver.open();
        receiver.on_receive(100).unwrap();
        receiver.on_receive(0).expect("marks are free");
        assert_eq!(
            receiver.on_receive(1),
            Err(CreditViolation::Overrun {
                bytes: 1,
                balance: 0
            })
        );
        let mut sender = SenderCredit::new();
        assert!(sender.on_grant(u64::MAX).is_err());
        sender.on_grant(i64::MAX as u64).unwrap();
        assert!(sender.on_grant(1).is_err());
    }

    #[test]
    fn a_smaller_window_takes_effect_as_credit_is_used() {
        let mut receiver = ReceiverCredit::new(100);
        let _ = receiver.open();
        assert_eq!(receiver.resize(40), 0);
        receiver.on_receive(80).unwrap();
        assert_eq!(receiver.on_consume(80), 20);
        assert_eq!(receiver.resize(200), 160);
        // What was granted stays granted, however small the window became.
        assert_eq!(receiver.resize(1), 0);
        receiver.on_receive(100).unwrap();
        receiver.on_receive(100).unwrap();
        assert_eq!(receiver.held(), 200);
    }

    #[test]
    fn nothing_is_granted_while_more_is_held_than_the_window_takes() {
        let mut receiver = ReceiverCredit::new(100);
        assert_eq!(receiver.open(), 100);
        receiver.on_receive(250).unwrap();
        assert_eq!(receiver.on_consume(100), 0, "150 held");
        assert_eq!(receiver.on_consume(50), 0, "100 held");
        // The debt of 150 and one byte of room.
        assert_eq!(receiver.on_consume(1), 151);
    }

    #[test]
    fn a_window_of_no_byte_is_one_of_one() {
        let mut receiver = ReceiverCredit::new(0);
        assert_eq!(receiver.open(), 1);
        receiver.on_receive(5).unwrap();
        assert_eq!(receiver.resize(0), 0);
        assert_eq!(receiver.on_consume(5), 5);
    }

    proptest! {
        /// Whatever is sent and consumed in whatever order: nothing is lost, the receiver holds at
        /// most its window and one element, and a sender stands still only if something is held.
        #[test]
        fn the_two_sides_agree(
            window in 1u64..500,
            sizes in prop::collection::vec(1u64..1500, 1..60),
            turns in prop::collection::vec(any::<bool>(), 0..200),
        ) {
            let (mut sender, mut receiver) = (SenderCredit::new(), ReceiverCredit::new(window));
            let mut to_send: VecDeque<u64> = sizes.iter().copied().collect();
            let mut held: VecDeque<u64> = VecDeque::new();
            let mut consumed = 0;
            sender.on_grant(receiver.open()).unwrap();
            let mut turns = turns.into_iter().chain(std::iter::repeat([true, false]).flatten());
            while consumed < sizes.len() {
                if turns.next() == Some(true) {
                    if sender.can_send() && let Some(size) = to_send.pop_front() {
                        sender.spend(size);
                        receiver.on_receive(size).unwrap();
                        held.push_back(size);
                        prop_assert!(receiver.held() < window + size);
                    }
                } else if let Some(size) = held.pop_front() {
                    sender.on_grant(receiver.on_consume(size)).unwrap();
                    consumed += 1;
                }
                prop_assert!(sender.can_send() || !held.is_empty());
            }
            prop_assert_eq!(receiver.held(), 0);
        }
    }
}
