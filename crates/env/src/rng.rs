//! Seeded randomness: ids, nonces, jitter.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use millstream_types::{Incarnation, JobId};
use parking_lot::Mutex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore, SeedableRng, TryRngCore};
use xxhash_rust::xxh3::xxh3_64_with_seed;

/// One component's random stream. Cloning shares the stream; [`Rng::fork`] starts an own one.
///
/// What a component draws does not depend on what others drew before it, so a change in one place
/// does not reshuffle a whole simulated run.
#[derive(Clone)]
pub struct Rng {
    stream: Arc<Mutex<Stream>>,
}

struct Stream {
    seed: [u8; 32],
    generator: StdRng,
    /// How often each name was forked: the same name gives a new stream each time, or two
    /// components would draw equal nonces.
    forks: BTreeMap<String, u64>,
}

impl Rng {
    /// Seeded by the operating system with 256 bits: what it draws never comes again.
    ///
    /// # Panics
    /// If the operating system has no randomness to give: no id would be safe then.
    pub fn from_os() -> Self {
        let mut seed = [0; 32];
        rand::rngs::OsRng
            .try_fill_bytes(&mut seed)
            .expect("the operating system gives random bytes once it has booted");
        Self::from_full_seed(seed)
    }

    /// The same seed gives the same stream.
    pub fn from_seed(seed: u64) -> Self {
        let mut full = [0; 32];
        full[..8].copy_from_slice(&seed.to_le_bytes());
        Self::from_full_seed(full)
    }

    fn from_full_seed(seed: [u8; 32]) -> Self {
        let generator = StdRng::from_seed(seed);
        let stream = Stream {
            seed,
            generator,
            forks: BTreeMap::new(),
        };
        Self {
            stream: Arc::new(Mutex::new(stream)),
        }
    }

    /// An own stream for the component `name`: it follows from this one's seed, the name and how
    /// often the name was forked before, and from nothing that was drawn.
    pub fn fork(&self, name: &str) -> Self {
        let mut stream = self.stream.lock();
        let count = stream.forks.entry(name.to_owned()).or_insert(0);
        let nth = *count;
        *count += 1;
        let mut material = stream.seed.to_vec();
        material.extend_from_slice(&nth.to_le_bytes());
        material.extend_from_slice(name.as_bytes());
        let mut seed = [0; 32];
        for (lane, part) in seed.chunks_exact_mut(8).enumerate() {
            part.copy_from_slice(&xxh3_64_with_seed(&material, lane as u64 + 1).to_le_bytes());
        }
        Self::from_full_seed(seed)
    }

    /// 64 random bits.
    pub fn u64(&self) -> u64 {
        self.stream.lock().generator.next_u64()
    }

    /// Evenly from the range.
    ///
    /// # Panics
    /// If the range is empty.
    pub fn range(&self, range: Range<u64>) -> u64 {
        assert!(
            !range.is_empty(),
            "a number was asked for out of the empty range {range:?}"
        );
        self.stream.lock().generator.random_range(range)
    }

    /// True with this probability; 0 or less is never, 1 or more always.
    pub fn chance(&self, probability: f64) -> bool {
        self.stream.lock().generator.random::<f64>() < probability
    }

    /// `duration`, up to `fraction` of it shorter or longer.
    pub fn jitter(&self, duration: Duration, fraction: f64) -> Duration {
        let offset = self.stream.lock().generator.random_range(-1.0..=1.0);
        let factor = (1.0 + fraction.clamp(0.0, 1.0) * offset).max(0.0);
        Duration::try_from_secs_f64(duration.as_secs_f64() * factor).unwrap_or(Duration::MAX)
    }

    /// A number for an object's name that no other writer has.
    pub fn nonce(&self) -> u64 {
        self.u64()
    }

    /// 16 random bytes.
    pub fn bytes16(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.stream.lock().generator.fill_bytes(&mut bytes);
        bytes
    }

    /// A new job's id.
    pub fn job_id(&self) -> JobId {
        JobId::from_bytes(self.bytes16())
    }

    /// The incarnation of a process that starts now.
    pub fn incarnation(&self) -> Incarnation {
        Incarnation(self.u64())
    }

    /// A version-4 UUID in its usual form: request ids, tokens.
    pub fn uuid(&self) -> String {
        let mut bytes = self.bytes16();
        bytes[6] = (bytes[6] & 0x0f) | 0x40;
        bytes[8] = (bytes[8] & 0x3f) | 0x80;
        let mut text = String::with_capacity(36);
        for (i, byte) in bytes.iter().enumerate() {
            if matches!(i, 4 | 6 | 8 | 10) {
                text.push('-');
            }
            text.push_str(&format!("{byte:02x}"));
        }
        text
    }
}

impl fmt::Debug for Rng {
    /// Shows no seed: nonces and tokens follow from it.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rng")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_replays_and_another_seed_differs() {
        let draw = |seed| {
            let rng = Rng::from_seed(seed);
            (rng.u64(), rng.job_id(), rng.uuid())
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_fork_does_not_depend_on_what_was_drawn_before() {
        let (quiet, busy) = (Rng::from_seed(7), Rng::from_seed(7));
        for _ in 0..100 {
            busy.u64();
        }
        assert_eq!(
            quiet.fork("jobmanager").u64(),
            busy.fork("jobmanager").u64()
        );
    }

    #[test]
    fn forks_of_one_name_are_different_streams() {
        let rng = Rng::from_seed(7);
        let drawn: Vec<u64> = [rng.fork("a"), rng.fork("a"), rng.fork("b"), rng.fork("")]
            .iter()
            .map(Rng::u64)
            .collect();
        let distinct: std::collections::BTreeSet<_> = drawn.iter().collect();
        assert_eq!(distinct.len(), 4, "{drawn:?}");
    }

    #[test]
    fn two_processes_never_share_a_stream() {
        assert_ne!(Rng::from_os().bytes16(), Rng::from_os().bytes16());
    }

    #[test]
    fn jitter_stays_within_its_fraction() {
        let rng = Rng::from_seed(3);
        let base = Duration::from_secs(10);
        for _ in 0..1_000 {
            let drawn = rng.jitter(base, 0.1);
            assert!(
                drawn >= Duration::from_secs(9) && drawn <= Duration::from_secs(11),
                "{drawn:?}"
            );
        }
        assert_eq!(rng.jitter(base, 0.0), base);
        assert_eq!(rng.jitter(Duration::MAX, 0.0), Duration::MAX);
    }

    #[test]
    fn ranges_and_chances_keep_their_bounds() {
        let rng = Rng::from_seed(4);
        assert!((0..1_000).all(|_| (5..8).contains(&rng.range(5..8))));
        assert!((0..100).all(|_| rng.chance(1.0) && !rng.chance(0.0)));
    }

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        let uuid = Rng::from_seed(9).uuid();
        assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"), "{uuid}");
        assert!("89ab".contains(&uuid[19..20]), "{uuid}");
    }
}
