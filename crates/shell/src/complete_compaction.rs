//! Completion within `compaction = {…}`: strategies, their options, and the values of options.

use compaction::spec::{COMMON, Kind, OptionSpec, STRATEGIES, StrategySpec};

/// Whether `words`, the tokens before the cursor, end within the map of a table's option `compaction`.
fn map_of<'a, 'b>(words: &'b [&'a str]) -> Option<&'b [&'a str]> {
    let open = words.iter().rposition(|word| matches!(*word, "{" | "}"))?;
    match words[..open] {
        [.., name, "="] if name.eq_ignore_ascii_case("compaction") && words[open] == "{" => {
            Some(&words[open + 1..])
        }
        _ => None,
    }
}

/// Texts that can stand at the cursor, quoted; `None` outside of the map. `words` are the tokens before the
/// word at the cursor.
pub fn candidates(words: &[&str]) -> Option<Vec<String>> {
    let map = map_of(words)?;
    let string = |word: &str| word.trim_matches('\'').to_string();
    let class = map.windows(3).find(|entry| entry[0] == "'class'" && entry[1] == ":");
    let strategy = class.and_then(|entry| StrategySpec::of_class(&string(entry[2])));
    let options = strategy.map_or_else(|| COMMON.iter().collect(), StrategySpec::options);
    Some(match *map {
        [] => vec!["'class': ".to_string()],
        [.., ","] => {
            let is_given = |option: &OptionSpec| {
                map.windows(2).any(|pair| string(pair[0]) == option.name && pair[1] == ":")
            };
            let left = options.into_iter().filter(|option| !is_given(option));
            left.map(|option| format!("'{}': ", option.name)).collect()
        }
        [.., "'class'", ":"] => STRATEGIES.iter().map(|strategy| format!("'{}'", strategy.class())).collect(),
        [.., name, ":"] => {
            let Some(option) = options.into_iter().find(|option| option.name == string(name)) else {
                return Some(vec![]);
            };
            match option.kind {
                Kind::Boolean => vec!["'true'".to_string(), "'false'".to_string()],
                Kind::Word(words) => words.iter().map(|word| format!("'{word}'")).collect(),
                _ if option.default.is_empty() => vec![],
                _ => vec![format!("'{}'", option.default)],
            }
        }
        _ => vec![", ".to_string(), "}".to_string()],
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use syntax::tokens;

    fn at_end_of(text: &str) -> Option<Vec<String>> {
        let words: Vec<&str> = tokens(text).map(|token| token.text(text)).collect();
        candidates(&words)
    }

    #[test]
    fn strategies_options_and_values() {
        let with =
            |rest: &str| at_end_of(&format!("CREATE TABLE t (k int PRIMARY KEY) WITH compaction = {rest}"));
        assert_eq!(with("{").unwrap(), ["'class': "]);
        assert!(with("{'class': ").unwrap().contains(&"'LeveledCompactionStrategy'".to_string()));
        let leveled = with("{'class': 'LeveledCompactionStrategy', 'enabled': 'true', ").unwrap();
        assert!(leveled.contains(&"'sstable_size_in_mb': ".to_string()), "{leveled:?}");
        assert!(!leveled.iter().any(|option| option.contains("enabled")), "{leveled:?}");
        assert!(!leveled.iter().any(|option| option.contains("scaling_parameters")), "{leveled:?}");
        assert_eq!(with("{'class': 'NullCompactionStrategy', 'log_all': ").unwrap(), ["'true'", "'false'"]);
        assert_eq!(with("{'class': 'NullCompactionStrategy', 'made_up': ").unwrap(), Vec::<String>::new());
        assert_eq!(with("{'class': 'NullCompactionStrategy'").unwrap(), [", ", "}"]);
        assert_eq!(with("{'class': 'NullCompactionStrategy'}"), None);
        assert_eq!(at_end_of("UPDATE t SET m = {'a': "), None);
    }
}
