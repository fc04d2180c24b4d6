//! Damaged job files: whatever is written, the answer is a valid graph or faults with remedies.

use millstream_graph::Plan;

use super::try_read;
use crate::JobFileErrors;
use crate::table::STEPS;

/// A small generator of numbers, so that a failure names the seed that repeats it.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound.max(1)
    }
}

/// The text cut where its parts begin, so that most damage leaves YAML.
fn parts(text: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for c in text.chars() {
        if ",:{}[]\"\n ".contains(c) {
            parts.push(c.to_string());
            parts.push(String::new());
        } else if let Some(last) = parts.last_mut() {
            last.push(c);
        }
    }
    parts.retain(|part| !part.is_empty());
    parts
}

/// One part removed, doubled, exchanged with another one or replaced.
fn damage(parts: &mut Vec<String>, numbers: &mut Numbers) {
    const ODD: [&str; 14] = [
        "",
        "~",
        "0",
        "-1",
        "[]",
        "{}",
        "from",
        "uid",
        "in",
        "n",
        "''",
        "99999999999999999999",
        "é",
        "NULL",
    ];
    let at = numbers.below(parts.len());
    match numbers.below(4) {
        0 => drop(parts.remove(at)),
        1 => parts.insert(at, parts[at].clone()),
        2 => {
            let other = numbers.below(parts.len());
            parts.swap(at, other);
        }
        _ => parts[at] = ODD[numbers.below(ODD.len())].to_owned(),
    }
}

#[test]
fn a_damaged_file_gives_a_valid_graph_or_faults_with_remedies() {
    let examples = STEPS.iter().flat_map(|step| step.examples);
    let (mut accepted, mut refused) = (0, 0);
    for (number, example) in examples.enumerate() {
        let whole = parts(example);
        for round in 0..150 {
            let seed = (number * 1_000 + round) as u64;
            let mut numbers = Numbers(seed);
            let mut parts = whole.clone();
            for _ in 0..=numbers.below(2) {
                damage(&mut parts, &mut numbers);
            }
            let text = parts.concat();
            match try_read(&text) {
                Ok(job) => {
                    accepted += 1;
                    assert_eq!(job.graph.validate(), Ok(()), "seed {seed}\n{text}");
                    Plan::new(&job.graph, true);
                }
                Err(errors) => {
                    refused += 1;
                    check(&errors, seed, &text);
                }
            }
        }
    }
    assert!(accepted > 100 && refused > 500, "{accepted}, {refused}");
}

fn check(errors: &JobFileErrors, seed: u64, text: &str) {
    let count = errors.faults().len();
    assert!((1..=JobFileErrors::LIMIT).contains(&count), "seed {seed}");
    for fault in errors.faults() {
        let lines = text.lines().count() as u32 + 1;
        let placed = fault
            .place
            .is_none_or(|place| (1..=lines).contains(&place.line));
        assert!(placed, "seed {seed}: {fault}\n{text}");
        assert!(!fault.remedy().is_empty(), "seed {seed}: {fault}");
        assert!(fault.render().contains("help: "), "seed {seed}");
    }
}
