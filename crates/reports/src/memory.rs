//! Memory of a shard, by class.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};

/// The memory that one class of data uses on a shard.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct MemoryClass {
    pub class: Cow<'static, str>,
    pub bytes: u64,
    /// The limit of the class; caches share theirs. `None`: something else bounds it.
    pub limit_bytes: Option<u64>,
}

impl MemoryClass {
    pub const fn new(class: &'static str, bytes: u64, limit_bytes: Option<u64>) -> Self {
        Self { class: Cow::Borrowed(class), bytes, limit_bytes }
    }
}

/// A table for people: the largest class comes first.
pub fn memory_text(classes: &[MemoryClass]) -> String {
    let mut classes: Vec<&MemoryClass> = classes.iter().collect();
    classes.sort_by_key(|it| std::cmp::Reverse(it.bytes));
    let mut text = format!("{:<22}{:>14}{:>14}\n", "memory", "bytes", "limit");
    for MemoryClass { class, bytes, limit_bytes } in &classes {
        let limit = limit_bytes.map_or("-".to_string(), |limit| limit.to_string());
        text.push_str(&format!("{class:<22}{bytes:>14}{limit:>14}\n"));
    }
    let total: u64 = classes.iter().map(|it| it.bytes).sum();
    text + &format!("{:<22}{total:>14}{:>14}\n", "total", "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_largest_class_comes_first_and_the_total_last() {
        let classes = [MemoryClass::new("memtables", 5, Some(60)), MemoryClass::new("sstables", 700, None)];
        let lines: Vec<String> = memory_text(&classes)
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(lines, ["memory bytes limit", "sstables 700 -", "memtables 5 60", "total 705 -"]);
    }
}
