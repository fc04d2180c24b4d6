//! Seeded: random good output is accepted in every view, and each random mutation is caught. A
//! failure prints its seed, which replays it.
#![allow(clippy::unwrap_used, reason = "helpers of tests")]

use std::fs;

use millstream_oracle::row::Format;
use rand::rngs::StdRng;
use rand::seq::{IndexedRandom, SliceRandom};
use rand::{Rng, SeedableRng};

use crate::output::Output;

const SEEDS: u64 = 400;

fn generate(rng: &mut StdRng) -> Output {
    let format = *[Format::Json, Format::Csv].choose(rng).unwrap();
    let (keys, n) = (rng.random_range(1..6), rng.random_range(2..25));
    Output::generate(format, keys, n, rng)
}

#[test]
fn good_output_is_accepted_in_every_view_whatever_the_order_between_subtasks() {
    for seed in 0..SEEDS / 4 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let output = generate(rng);
        // Two subtasks commit independently, each in its own order.
        let (mut left, mut right): (Vec<_>, Vec<_>) = output
            .parts
            .iter()
            .rev()
            .partition(|part| part.name.starts_with("part-out-00000"));
        let mut examiner = output.examiner();
        while !left.is_empty() || !right.is_empty() {
            let side = if rng.random() { &mut left } else { &mut right };
            if let Some(part) = side.pop() {
                output.commit(part);
            }
            if rng.random_bool(0.4) {
                examiner.look();
            }
        }
        examiner.conclude(true);
        let findings = examiner.findings().kept();
        assert!(findings.is_empty(), "seed {seed}: {findings:?}");
    }
}

#[test]
fn every_mutation_of_rows_is_caught() {
    for seed in 0..SEEDS {
        let rng = &mut StdRng::seed_from_u64(seed);
        let mut output = generate(rng);
        let mutation = mutate_rows(&mut output, rng);
        output.commit_all();
        let findings = output.check();
        assert!(
            !findings.is_empty(),
            "seed {seed}: {mutation} was not caught"
        );
    }
}

#[test]
fn every_mutation_of_bytes_is_caught() {
    for seed in 0..SEEDS {
        let rng = &mut StdRng::seed_from_u64(seed);
        let output = generate(rng);
        output.commit_all();
        let mutation = mutate_bytes(&output, rng);
        let findings = output.check();
        assert!(
            !findings.is_empty(),
            "seed {seed}: {mutation} was not caught"
        );
    }
}

#[test]
fn every_change_of_what_was_visible_is_caught_in_the_end() {
    for seed in 0..SEEDS / 4 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let output = generate(rng);
        output.commit_all();
        let mut examiner = output.examiner();
        examiner.look();
        assert!(examiner.findings().is_empty(), "seed {seed}");
        let mutation = mutate_bytes(&output, rng);
        examiner.conclude(false);
        let is_caught = !examiner.findings().is_empty();
        assert!(is_caught, "seed {seed}: {mutation} was not caught");
    }
}

#[test]
fn every_file_revealed_before_its_commit_is_caught() {
    for seed in 0..SEEDS / 4 {
        let rng = &mut StdRng::seed_from_u64(seed);
        let output = generate(rng);
        let mut examiner = output.examiner();
        let n_committed = rng.random_range(0..output.parts.len());
        for part in &output.parts[..n_committed] {
            output.commit(part);
        }
        let mut revealed = output.parts[n_committed..].choose(rng).unwrap().clone();
        revealed.name = format!("inprogress-{}", revealed.name);
        output.commit(&revealed);
        let is_seen = rng.random();
        if is_seen {
            examiner.look();
        }
        // What nobody saw did not happen, unless it stays.
        if is_seen && rng.random() {
            fs::remove_file(output.path(&revealed.name)).unwrap();
        }
        for part in &output.parts[n_committed..] {
            output.commit(part);
        }
        examiner.conclude(true);
        let is_caught = !examiner.findings().is_empty();
        assert!(is_caught, "seed {seed}: {} was not caught", revealed.name);
    }
}

/// Changes the rows of one file; says how.
fn mutate_rows(output: &mut Output, rng: &mut StdRng) -> String {
    let index = rng.random_range(0..output.parts.len());
    let source = output.parts.choose(rng).unwrap().rows.clone();
    let rows = &mut output.parts[index].rows;
    let row = rng.random_range(0..rows.len());
    let what = match rng.random_range(0..6) {
        0 => {
            rows.remove(row);
            "dropped"
        }
        1 => {
            let position = rng.random_range(0..=rows.len());
            rows.insert(position, *source.choose(rng).unwrap());
            "doubled"
        }
        2 if swap_within_a_key(rows, rng) => "swapped",
        2 | 3 => {
            rows[row][1] += rng.random_range(1..10);
            "altered n"
        }
        4 => {
            rows[row][2] ^= 1 << rng.random_range(0..20);
            "altered sum"
        }
        _ => {
            rows[row][0] += rng.random_range(1..10);
            "altered key"
        }
    };
    format!("row {row} of file {index} {what}")
}

/// Rows of two keys may stand in any order, so only those of one are worth a swap.
fn swap_within_a_key(rows: &mut [[u64; 3]], rng: &mut StdRng) -> bool {
    let mut pairs: Vec<(usize, usize)> = (0..rows.len())
        .flat_map(|a| (a + 1..rows.len()).map(move |b| (a, b)))
        .filter(|(a, b)| rows[*a][0] == rows[*b][0])
        .collect();
    pairs.shuffle(rng);
    pairs.pop().is_some_and(|(a, b)| {
        rows.swap(a, b);
        true
    })
}

/// Changes one file; says how.
fn mutate_bytes(output: &Output, rng: &mut StdRng) -> String {
    let name = &output.parts.choose(rng).unwrap().name;
    let path = output.path(name);
    let mut bytes = fs::read(&path).unwrap();
    let position = rng.random_range(0..bytes.len());
    let what = match rng.random_range(0..5) {
        0 => {
            fs::remove_file(&path).unwrap();
            return format!("{name} removed");
        }
        1 => {
            bytes.truncate(position);
            "truncated"
        }
        2 => {
            bytes.remove(position);
            "a byte short"
        }
        3 => {
            bytes[position] ^= 1 << rng.random_range(0..8);
            "a bit flipped"
        }
        _ => {
            bytes[position] = bytes[position].wrapping_add(rng.random_range(1..=255));
            "a byte replaced"
        }
    };
    fs::write(&path, bytes).unwrap();
    format!("{name}, byte {position}: {what}")
}
