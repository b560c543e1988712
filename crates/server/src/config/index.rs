//! The index of all options: every name that the configuration recognises, with one of three words.
//!
//! It is generated from the tables that the configuration is parsed with ([`OPTIONS`], [`ignored`]); a test
//! compares the index of `docs/configuration.md` with it. An option that [`Word::Acts`] has a row in the test
//! of effects (`crates/messina/tests/it/effects/`); the other two give a warning when they are set.

use super::ignored;
use super::options::OPTIONS;

/// What setting an option does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Word {
    Acts,
    NoMeaning,
    NotBuilt,
}

impl Word {
    pub fn text(self) -> &'static str {
        match self {
            Self::Acts => "acts",
            Self::NoMeaning => "no meaning on one node",
            Self::NotBuilt => "not built yet",
        }
    }
}

/// A line of the index.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub name: &'static str,
    pub word: Word,
    pub remark: String,
}

/// All names, sorted.
pub fn entries() -> Vec<Entry> {
    let mut entries = vec![];
    for option in OPTIONS {
        let word = Word::Acts;
        entries.push(Entry { name: option.name, word, remark: String::new() });
        let remark = format!("another spelling of `{}`", option.name);
        let also = option.also.iter().map(|(name, _)| Entry { name, word, remark: remark.clone() });
        entries.extend(also);
    }
    entries.extend(ignored::all().map(|(name, why)| {
        let remark = why.remark().to_string();
        Entry { name, word: why.word(), remark }
    }));
    entries.sort_by_key(|entry| entry.name);
    entries
}

/// The index as a Markdown table.
pub fn markdown() -> String {
    let mut text = String::from("| option | | |\n|---|---|---|\n");
    for Entry { name, word, remark } in entries() {
        text.push_str(&format!("| `{name}` | {} | {remark} |\n", word.text()));
    }
    text
}
