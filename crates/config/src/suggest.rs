//! "Did you mean".

/// The candidate that `word` most likely meant: one that is spelled nearly alike, else the only one
/// that ends in `.word`.
pub fn suggest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    const ALIKE: f64 = 0.72;
    let word = word.to_ascii_lowercase();
    let suffix = format!(".{word}");
    let mut best: Option<(f64, &str)> = None;
    let mut endings = Vec::new();
    for candidate in candidates {
        let lower = candidate.to_ascii_lowercase();
        if lower.ends_with(&suffix) {
            endings.push(candidate);
        }
        let score = strsim::normalized_damerau_levenshtein(&word, &lower);
        if score >= ALIKE && best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, candidate));
        }
    }
    let only_ending = || {
        (endings.len() == 1)
            .then(|| endings.first().copied())
            .flatten()
    };
    best.map(|(_, candidate)| candidate).or_else(only_ending)
}

#[cfg(test)]
mod tests {
    use super::suggest;

    const KEYS: [&str; 3] = ["checkpointing.interval", "heartbeat.interval", "rest.port"];

    #[test]
    fn a_typo_finds_its_key_and_a_last_part_its_only_owner() {
        assert_eq!(
            suggest("chekpointing.intervall", KEYS),
            Some("checkpointing.interval")
        );
        assert_eq!(suggest("REST.Port", KEYS), Some("rest.port"));
        assert_eq!(suggest("port", KEYS), Some("rest.port"));
    }

    #[test]
    fn nothing_alike_and_nothing_unique_gives_no_suggestion() {
        assert_eq!(suggest("colour", KEYS), None);
        assert_eq!(suggest("interval", KEYS), None);
    }
}
