//! What is said of a command line that is none.

use millstream_types::errors;

/// The parser's words, with our code in front.
pub fn usage(error: &clap::Error) -> String {
    let said = error.render().to_string();
    let said = said.trim_end();
    let said = said.strip_prefix("error: ").unwrap_or(said);
    let what = said.strip_suffix(HINT).unwrap_or(said).trim_end();
    errors::ARGUMENTS.render(what, "--help shows commands, arguments and flags")
}

/// How the parser ends.
const HINT: &str = "For more information, try '--help'.";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_flag_is_named_with_code_usage_and_help() {
        let command = clap::Command::new("idle");
        let error = command
            .try_get_matches_from(["idle", "--flag"])
            .unwrap_err();
        let said = usage(&error);
        assert!(
            said.starts_with("error[USE-0001]: unexpected argument '--flag' found\n"),
            "{said}"
        );
        assert!(said.contains("Usage: idle"), "{said}");
        assert!(
            said.ends_with("\n  help: --help shows commands, arguments and flags"),
            "{said}"
        );
        assert!(!said.contains(HINT), "{said}");
    }
}
