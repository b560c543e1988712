//! `io_properties.yaml`: rates of disks, in the format that ScyllaDB's tools write and read.
//!
//! ```text
//! disks:
//!   - mountpoint: /var/lib/messina
//!     read_iops: 285000
//!     read_bandwidth: 1525M
//!     write_iops: 173000
//!     write_bandwidth: 1100M
//! ```
//!
//! A disk may have a list of `mountpoints` instead. `read_saturation_length`, `write_saturation_length`,
//! `physical_block_size`, `duplex` and `rate_factor` are optional. Numbers may end in k, M, G or T, which are
//! powers of 1024.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use yaml_serde::Value;

use crate::model::DiskModel;

/// One entry of the file.
#[derive(Clone, Debug, PartialEq)]
pub struct DiskEntry {
    /// Directories on the disk, or the path of the device; at least one.
    pub mountpoints: Vec<PathBuf>,
    pub model: DiskModel,
    /// Size in bytes of the block that the disk writes at once, if it differs from the size that the disk
    /// reports.
    pub physical_block_bytes: Option<u64>,
}

/// The file could not be parsed; the text names the disk, the field and the value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadProperties(String);

impl fmt::Display for BadProperties {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for BadProperties {}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    disks: Vec<Entry>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Entry {
    mountpoint: Option<PathBuf>,
    #[serde(default)]
    mountpoints: Vec<PathBuf>,
    read_iops: Value,
    read_bandwidth: Value,
    write_iops: Value,
    write_bandwidth: Value,
    read_saturation_length: Option<Value>,
    write_saturation_length: Option<Value>,
    physical_block_size: Option<Value>,
    #[serde(default)]
    duplex: bool,
    rate_factor: Option<f64>,
}

/// Parses the disks of a file. The rates returned are already multiplied by `rate_factor`.
///
/// Errors: malformed YAML, an unknown field, a disk without a mountpoint, a mountpoint listed twice, a rate
/// that is 0 or not a number, a `rate_factor` that is not above 0.
pub fn parse(text: &str) -> Result<Vec<DiskEntry>, BadProperties> {
    let document: Document = yaml_serde::from_str(text).map_err(|error| BadProperties(error.to_string()))?;
    let disks = document.disks.into_iter().map(Entry::check).collect::<Result<Vec<_>, _>>()?;
    let mut seen: Vec<&PathBuf> = disks.iter().flat_map(|disk| &disk.mountpoints).collect();
    seen.sort_unstable();
    match seen.windows(2).find(|pair| pair[0] == pair[1]) {
        None => Ok(disks),
        Some(pair) => Err(BadProperties(format!("mountpoint {} is there twice", pair[0].display()))),
    }
}

/// Formats the file for these disks.
pub fn write(disks: &[DiskEntry]) -> String {
    use fmt::Write;
    let mut text = String::from("disks:\n");
    for disk in disks {
        let DiskEntry { mountpoints, model, physical_block_bytes } = disk;
        let name = |path: &PathBuf| {
            // JSON strings are valid YAML strings.
            let mut quoted = String::from("\"");
            for c in path.to_string_lossy().chars() {
                match c {
                    '"' | '\\' => quoted.extend(['\\', c]),
                    c if c.is_control() => quoted.push_str(&format!("\\u{:04x}", c as u32)),
                    c => quoted.push(c),
                }
            }
            quoted + "\""
        };
        match &mountpoints[..] {
            [one] => {
                let _ = writeln!(text, "  - mountpoint: {}", name(one));
            }
            several => {
                let names: Vec<String> = several.iter().map(name).collect();
                let _ = writeln!(text, "  - mountpoints: [{}]", names.join(", "));
            }
        }
        let mut field = |name: &str, value: Option<u64>| {
            if let Some(value) = value {
                let _ = writeln!(text, "    {name}: {value}");
            }
        };
        field("read_iops", Some(model.read_iops));
        field("read_bandwidth", Some(model.read_bandwidth_bytes_s));
        field("write_iops", Some(model.write_iops));
        field("write_bandwidth", Some(model.write_bandwidth_bytes_s));
        field("read_saturation_length", model.read_saturation_bytes);
        field("write_saturation_length", model.write_saturation_bytes);
        field("physical_block_size", *physical_block_bytes);
        if model.duplex {
            let _ = writeln!(text, "    duplex: true");
        }
    }
    text
}

impl Entry {
    fn check(self) -> Result<DiskEntry, BadProperties> {
        let mut mountpoints = self.mountpoints;
        mountpoints.extend(self.mountpoint);
        let Some(first) = mountpoints.first() else {
            return Err(BadProperties("a disk has neither `mountpoint` nor `mountpoints`".to_owned()));
        };
        let of = first.display().to_string();
        let factor = self.rate_factor.unwrap_or(1.0);
        if !factor.is_finite() || factor <= 0.0 {
            return Err(BadProperties(format!("{of}: rate_factor is {factor}, it must be above 0")));
        }
        let rate = |name, value: &Value| match number(value) {
            Some(0) => {
                Err(BadProperties(format!("{of}: {name} is 0; leave the disk out if it has no limits")))
            }
            Some(rate) => Ok(rate),
            None => Err(not_a_number(&of, name, value)),
        };
        let size = |name, value: &Option<Value>| match value {
            None => Ok(None),
            Some(value) => match number(value) {
                Some(0) => Ok(None),
                Some(bytes) => Ok(Some(bytes)),
                None => Err(not_a_number(&of, name, value)),
            },
        };
        let model = DiskModel {
            read_bandwidth_bytes_s: rate("read_bandwidth", &self.read_bandwidth)?,
            write_bandwidth_bytes_s: rate("write_bandwidth", &self.write_bandwidth)?,
            read_iops: rate("read_iops", &self.read_iops)?,
            write_iops: rate("write_iops", &self.write_iops)?,
            read_saturation_bytes: size("read_saturation_length", &self.read_saturation_length)?,
            write_saturation_bytes: size("write_saturation_length", &self.write_saturation_length)?,
            duplex: self.duplex,
        };
        let physical_block_bytes = size("physical_block_size", &self.physical_block_size)?;
        let model = if factor == 1.0 { model } else { model.scaled(factor) };
        Ok(DiskEntry { model, physical_block_bytes, mountpoints })
    }
}

fn not_a_number(of: &str, name: &str, value: &Value) -> BadProperties {
    let text = yaml_serde::to_string(value).unwrap_or_default();
    BadProperties(format!("{of}: {name} is {}; write a number like 1000 or 200M", text.trim()))
}

/// A number with an optional unit (k, M, G, T); `None` if it is malformed or overflows.
fn number(value: &Value) -> Option<u64> {
    if let Some(number) = value.as_u64() {
        return Some(number);
    }
    let text = value.as_str()?;
    let (digits, power) = match text.char_indices().next_back()? {
        (at, 'k' | 'K') => (&text[..at], 1),
        (at, 'M') => (&text[..at], 2),
        (at, 'G') => (&text[..at], 3),
        (at, 'T') => (&text[..at], 4),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1024_u64.pow(power))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = "
disks:
  - mountpoint: /var/lib/one
    read_iops: 285k
    read_bandwidth: 2G
    write_iops: 1000
    write_bandwidth: 1048576
  - mountpoints: [/two, /three]
    read_iops: 10
    read_bandwidth: 20
    write_iops: 30
    write_bandwidth: 40
    read_saturation_length: 128k
    physical_block_size: 4096
    duplex: true
    rate_factor: 0.5
";

    #[test]
    fn fields_of_cassandra_and_scylladb_are_understood() {
        let disks = parse(TWO).unwrap();
        let one = DiskModel {
            read_bandwidth_bytes_s: 2 << 30,
            write_bandwidth_bytes_s: 1 << 20,
            read_iops: 285 << 10,
            write_iops: 1000,
            ..DiskModel::NOMINAL
        };
        assert_eq!(disks[0].model, one);
        let two = DiskModel {
            read_bandwidth_bytes_s: 10,
            write_bandwidth_bytes_s: 20,
            read_iops: 5,
            write_iops: 15,
            read_saturation_bytes: Some(128 << 10),
            write_saturation_bytes: None,
            duplex: true,
        };
        assert_eq!(disks[1].model, two);
        assert_eq!(disks[1].physical_block_bytes, Some(4096));
        assert_eq!(disks[1].mountpoints, [PathBuf::from("/two"), PathBuf::from("/three")]);
    }

    #[test]
    fn what_is_written_is_read_back() {
        let disks = parse(TWO).unwrap();
        assert_eq!(parse(&write(&disks)).unwrap(), disks);
        let odd = DiskEntry { mountpoints: vec![PathBuf::from("/a \"b\\ c: #\t")], ..disks[0].clone() };
        assert_eq!(parse(&write(std::slice::from_ref(&odd))).unwrap(), [odd]);
    }

    #[test]
    fn mistakes_are_named() {
        let error = |text: &str| parse(text).unwrap_err().to_string();
        let rates = "read_iops: 1, read_bandwidth: 1, write_iops: 1";
        assert!(error("tapes: []").contains("tapes"));
        assert!(error(&format!("disks: [{{mountpoint: /a, {rates}}}]")).contains("write_bandwidth"));
        let zero = error(&format!("disks: [{{mountpoint: /a, {rates}, write_bandwidth: 0}}]"));
        assert!(zero.starts_with("/a: write_bandwidth is 0"), "{zero}");
        let word = error(&format!("disks: [{{mountpoint: /a, {rates}, write_bandwidth: 10X}}]"));
        assert!(word.contains("10X"), "{word}");
        assert!(error(&format!("disks: [{{{rates}, write_bandwidth: 1}}]")).contains("mountpoint"));
        let twice = format!("disks: [{{mountpoints: [/a, /a], {rates}, write_bandwidth: 1}}]");
        assert!(error(&twice).contains("twice"));
        let much = error(&format!("disks: [{{mountpoint: /a, {rates}, write_bandwidth: 99999999999T}}]"));
        assert!(much.contains("99999999999T"), "{much}");
    }
}
