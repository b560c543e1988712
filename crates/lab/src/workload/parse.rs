//! From the text of a workload file to a checked workload.
//!
//! An error names the line and column if the text has one, and the nearest known name for an unknown one.
//! Values are checked here, so that the simulation needs no checks of its own.

use std::fmt;

use base::suggest::nearest;
use serde::de::{self, Deserialize, Deserializer, Visitor};
use yaml_serde::{Mapping, Value};

use super::{NamedStrategy, OptionValue, Pattern, Phase, Workload};
use crate::quantity::Rate;

/// A workload that cannot be simulated, with the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkloadError(pub String);

impl fmt::Display for WorkloadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for WorkloadError {}

impl<'de> Deserialize<'de> for OptionValue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Scalar;
        impl Visitor<'_> for Scalar {
            type Value = OptionValue;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a text, a number, true or false")
            }
            fn visit_bool<E: de::Error>(self, value: bool) -> Result<OptionValue, E> {
                Ok(OptionValue(value.to_string()))
            }
            fn visit_u64<E: de::Error>(self, value: u64) -> Result<OptionValue, E> {
                Ok(OptionValue(value.to_string()))
            }
            fn visit_i64<E: de::Error>(self, value: i64) -> Result<OptionValue, E> {
                Ok(OptionValue(value.to_string()))
            }
            fn visit_f64<E: de::Error>(self, value: f64) -> Result<OptionValue, E> {
                Ok(OptionValue(value.to_string()))
            }
            fn visit_str<E: de::Error>(self, value: &str) -> Result<OptionValue, E> {
                Ok(OptionValue(value.to_string()))
            }
        }
        deserializer.deserialize_any(Scalar)
    }
}

/// Parses and checks a workload. `name` is the file or the shipped workload, for errors.
pub fn parse(name: &str, text: &str) -> Result<Workload, WorkloadError> {
    let workload: Workload =
        yaml_serde::from_str(text).map_err(|error| WorkloadError(format!("{name}: {}", explain(&error))))?;
    check(&workload).map_err(|reason| WorkloadError(format!("{name}: {reason}")))?;
    Ok(workload)
}

/// The text of an error of the YAML library, with the nearest known name if a name is unknown. The library
/// lists the known names after the unknown one, each between backquotes.
fn explain(error: &yaml_serde::Error) -> String {
    let text = error.to_string();
    let mut names = text.split('`').skip(1).step_by(2);
    let is_unknown = text.contains("unknown field `") || text.contains("unknown variant `");
    let near = names.next().filter(|_| is_unknown).and_then(|unknown| nearest(unknown, names));
    match near {
        Some(near) => format!("{text}; did you mean {near}?"),
        None => text,
    }
}

/// The text of a workload with one value replaced or added: for `lab sweep`. `knob` is the path of the value:
/// `node.flush_bytes`, `phases.0.writes_per_s`, `strategies.LCS.sstable_size_in_mb`.
pub fn with_setting(name: &str, text: &str, knob: &str, value: &str) -> Result<String, WorkloadError> {
    let failed = |reason: String| WorkloadError(format!("{name}: {reason}"));
    let mut document: Value = yaml_serde::from_str(text).map_err(|error| failed(error.to_string()))?;
    let mut at = &mut document;
    for part in knob.split('.') {
        if at.is_null() {
            *at = Value::Mapping(Mapping::new());
        }
        at = match at {
            Value::Mapping(mapping) => mapping.entry(Value::from(part)).or_insert(Value::Null),
            Value::Sequence(items) => {
                let count = items.len();
                let index = part.parse::<usize>().ok();
                index.and_then(|index| items.get_mut(index)).ok_or_else(|| {
                    failed(format!(
                        "{knob}: {part} is not the number of an element; there are {count}, from 0"
                    ))
                })?
            }
            _ => return Err(failed(format!("{knob}: there is a value before {part}, which has no parts"))),
        };
    }
    *at = yaml_serde::from_str(value).map_err(|error| failed(format!("{knob}: {error}")))?;
    yaml_serde::to_string(&document).map_err(|error| failed(error.to_string()))
}

fn share(name: &str, value: f64) -> Result<(), String> {
    if (0.0..=1.0).contains(&value) { Ok(()) } else { Err(format!("{name}: {value} is not from 0 to 1")) }
}

fn positive(name: &str, value: f64) -> Result<(), String> {
    if value > 0.0 && value.is_finite() { Ok(()) } else { Err(format!("{name}: {value} is not above 0")) }
}

fn check(workload: &Workload) -> Result<(), String> {
    let (table, node) = (&workload.table, &workload.node);
    for (name, value) in [
        ("table.partitions", table.partitions.0),
        ("table.rows_per_partition", table.rows_per_partition.0),
        ("table.row_bytes", table.row_bytes.0),
        ("table.tombstone_bytes", table.tombstone_bytes.0),
        ("table.disk_ratio", table.disk_ratio),
        ("table.chunk_length", table.chunk_length.0),
        ("node.shards", f64::from(node.shards)),
        ("node.memory", node.memory.0),
        ("node.disk.capacity", node.disk.capacity.0),
        ("node.disk.read_bandwidth", node.disk.read_bandwidth.0),
        ("node.disk.write_bandwidth", node.disk.write_bandwidth.0),
        ("node.disk.read_iops", node.disk.read_iops.0),
        ("node.disk.write_iops", node.disk.write_iops.0),
        ("node.cpu.write_us", node.cpu.write_us),
        ("node.cpu.read_us", node.cpu.read_us),
        ("node.cpu.read_sstable_us", node.cpu.read_sstable_us),
        ("node.cpu.flush_ms_per_mb", node.cpu.flush_ms_per_mb),
        ("node.cpu.merge_in_ms_per_mb", node.cpu.merge_in_ms_per_mb),
        ("node.cpu.merge_out_ms_per_mb", node.cpu.merge_out_ms_per_mb),
    ] {
        positive(name, value)?;
    }
    if let Some(bytes) = node.flush_bytes {
        positive("node.flush_bytes", bytes.0)?;
    }
    if table.partitions.0 < f64::from(node.shards) {
        return Err("table.partitions: there are fewer partitions than node.shards".to_string());
    }
    if node.flushed_bytes() < 20.0 * table.row_bytes.0 {
        return Err("node.flush_bytes: a flush must have at least 20 rows".to_string());
    }
    share("table.bloom_filter_fp_chance", table.bloom_filter_fp_chance)?;
    for strategy in workload.strategies() {
        check_strategy(&strategy)?;
    }
    if workload.phases.is_empty() {
        return Err("phases: there must be at least one".to_string());
    }
    for (number, phase) in workload.phases.iter().enumerate() {
        check_phase(phase).map_err(|reason| format!("phases.{number}.{reason}"))?;
    }
    if workload.phases.last().is_some_and(|phase| phase.warmup) {
        return Err("phases: the last one cannot be a warmup; nothing would be counted".to_string());
    }
    let appends = |phase: &Phase| phase.pattern == Pattern::Append;
    if workload.phases.iter().any(appends) && !workload.phases.iter().all(appends) {
        return Err("phases: append cannot be mixed with other patterns in one workload".to_string());
    }
    Ok(())
}

/// Refuses options that a table must not have.
pub fn check_strategy(strategy: &NamedStrategy) -> Result<(), String> {
    compaction::check_options(&strategy.options).map_err(|error| {
        let known = compaction::STRATEGIES.iter().map(|known| known.name);
        let class = strategy.options.get("class").map_or("", String::as_str);
        let short = class.rsplit('.').next().unwrap_or(class).trim_end_matches("CompactionStrategy");
        let near = nearest(short, known).filter(|near| *near != short);
        let hint = near.map_or(String::new(), |near| format!("; did you mean {near}CompactionStrategy?"));
        format!("strategies.{}: {error}{hint}", strategy.name)
    })
}

fn check_phase(phase: &Phase) -> Result<(), String> {
    let is_append = phase.pattern == Pattern::Append;
    match (phase.writes, phase.duration) {
        (Some(_), Some(_)) | (None, None) => return Err("writes: give either writes or duration".to_string()),
        (Some(writes), None) => positive("writes", writes.0)?,
        (None, Some(duration)) => positive("duration", duration.0)?,
    }
    if phase.writes.is_some() && phase.writes_per_s == Rate::PerSecond(0.0) {
        return Err("writes_per_s: without writes the phase never ends; give a rate or max".to_string());
    }
    share("deletes", phase.deletes)?;
    share("late", phase.late)?;
    share("cache_hits", phase.cache_hits)?;
    let only_with = |name: &str, is_given: bool, pattern: Pattern, here: Pattern| {
        if is_given && here != pattern {
            let pattern = format!("{pattern:?}").to_lowercase();
            return Err(format!("{name}: has a meaning only with pattern {pattern}"));
        }
        Ok(())
    };
    let reads_or = |pattern: Pattern| if phase.reads() == pattern { pattern } else { phase.pattern };
    only_with("exponent", phase.exponent.is_some(), Pattern::Zipf, reads_or(Pattern::Zipf))?;
    only_with("deviation", phase.deviation.is_some(), Pattern::Gauss, reads_or(Pattern::Gauss))?;
    only_with("delete_after", phase.delete_after.is_some(), Pattern::Append, phase.pattern)?;
    only_with("late", phase.late > 0.0, Pattern::Append, phase.pattern)?;
    only_with("read_span", phase.read_span.is_some(), Pattern::Append, phase.reads())?;
    if (phase.late > 0.0) != phase.late_by.is_some() {
        return Err("late_by: late and late_by belong together".to_string());
    }
    if is_append && phase.deletes > 0.0 {
        return Err("deletes: appended rows are deleted with delete_after".to_string());
    }
    if is_append != (phase.reads() == Pattern::Append) {
        return Err("read_pattern: append reads are for appended rows, and only these".to_string());
    }
    if let Some(exponent) = phase.exponent {
        positive("exponent", exponent)?;
    }
    if let Some(deviation) = phase.deviation {
        positive("deviation", deviation)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = "phases: [{writes: 1M, writes_per_s: 10k}]\n";

    fn error(text: &str) -> String {
        parse("my.yaml", text).expect_err("an error").to_string()
    }

    #[test]
    fn a_file_of_one_line_is_a_workload() {
        let workload = parse("my.yaml", SMALL).unwrap();
        assert_eq!(workload.phases[0].writes_per_s, Rate::PerSecond(10_000.0));
        assert_eq!(workload.strategies().len(), 5);
    }

    #[test]
    fn errors_name_the_line_and_the_nearest_name() {
        let misspelled = error("table:\n  partitons: 4M\nphases: []\n");
        assert!(misspelled.starts_with("my.yaml: "), "{misspelled}");
        assert!(misspelled.contains("line 2 column 3"), "{misspelled}");
        assert!(misspelled.contains("did you mean partitions?"), "{misspelled}");
        let pattern = error("phases:\n- writes: 1\n  writes_per_s: max\n  pattern: zpif\n");
        assert!(pattern.contains("line 4") && pattern.contains("did you mean zipf?"), "{pattern}");
        let unit = error("node: {memory: 10 foo}\nphases: []\n");
        assert!(unit.contains("10 foo") && unit.contains("as 4096, 10MB or 1GiB"), "{unit}");
        let class = error(&format!("strategies: {{A: {{class: LeveldCompactionStrategy}}}}\n{SMALL}"));
        assert!(class.contains("did you mean LeveledCompactionStrategy?"), "{class}");
        let option = error(&format!(
            "strategies: {{A: {{class: LeveledCompactionStrategy, sstable_size_in_mb: 0}}}}\n{SMALL}"
        ));
        assert!(option.contains("strategies.A") && option.contains("sstable_size_in_mb"), "{option}");
    }

    #[test]
    fn values_without_effect_are_refused() {
        for (phase, expect) in [
            ("writes: 1, writes_per_s: 5, exponent: 2", "only with pattern zipf"),
            ("writes: 1", "the phase never ends"),
            ("writes: 1, duration: 1h, writes_per_s: 5", "either writes or duration"),
            ("duration: 1h, deletes: 2", "not from 0 to 1"),
            ("duration: 1h, delete_after: 1h", "only with pattern append"),
            ("duration: 1h, pattern: append, late: 0.1", "belong together"),
            ("duration: 1h, read_pattern: append", "append reads"),
        ] {
            let found = error(&format!("phases: [{{{phase}}}]\n"));
            assert!(found.contains(expect) && found.contains("phases.0."), "{phase}: {found}");
        }
        assert!(error("table: {partitions: 0}\nphases: [{duration: 1h}]\n").contains("not above 0"));
        assert!(error("phases: []\n").contains("at least one"));
    }

    #[test]
    fn a_setting_replaces_one_value() {
        let text = with_setting("my.yaml", SMALL, "phases.0.writes_per_s", "max").unwrap();
        assert_eq!(parse("my.yaml", &text).unwrap().phases[0].writes_per_s, Rate::Max);
        let text = with_setting("my.yaml", SMALL, "node.memory", "1GB").unwrap();
        assert_eq!(parse("my.yaml", &text).unwrap().node.memory.0, 1e9);
        let text = with_setting("my.yaml", SMALL, "node.memroy", "1GB").unwrap();
        assert!(error(&text).contains("did you mean memory?"));
        let far = with_setting("my.yaml", SMALL, "phases.7.writes", "1").unwrap_err().to_string();
        assert!(far.contains("there are 1"), "{far}");
    }
}
