//! Lists the SSTables of a directory and all directories below it, by table.
//!
//! It reads directories, Statistics.db and Messina.db. An SSTable that vanishes meanwhile is left out.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use runtime::{IoClass, Shard};
use shell::{Cell, Style, write_table};
use sstable::component::messina::MessinaInfo;
use sstable::name::{Component, SSTableName};
use sstable::tools::{Finding, SSTablePath, read_statistics};

use super::arguments::{Format, LsArguments};
use super::run::{End, Out, complain};

/// Data directories have keyspaces, tables, and snapshots below them; deeper directories are ignored.
const DEPTH_MAX: usize = 6;
const MESSINA_BYTES_MAX: u64 = 1 << 20;

struct Line {
    name: SSTableName,
    total_bytes: u64,
    data_bytes: u64,
    ratio: Option<f64>,
    min_timestamp_us: i64,
    max_timestamp_us: i64,
    level: u32,
    partitions: u64,
    origin: Option<String>,
}

pub async fn run(shard: &Shard, arguments: &LsArguments) -> Result<End, String> {
    let mut out = Out::new();
    let mut end = End::Well;
    let mut waiting = vec![(arguments.dir.clone(), 0)];
    let mut tables = 0;
    let mut json = vec![];
    while let Some((dir, depth)) = waiting.pop() {
        let entries = match shard.files().read_dir(&dir).await {
            Ok(entries) => entries,
            Err(error) if depth == 0 => return Err(error.to_string()),
            // The directory was removed meanwhile, or is not readable for this user.
            Err(error) => {
                complain(&error.to_string());
                continue;
            }
        };
        let mut below: Vec<PathBuf> =
            entries.iter().filter(|entry| entry.is_dir).map(|entry| dir.join(&entry.name)).collect();
        below.sort_by(|a, b| b.cmp(a));
        if depth < DEPTH_MAX {
            waiting.extend(below.into_iter().map(|dir| (dir, depth + 1)));
        }
        // By name: whether it is sealed, the length of Data.db, and the length of all components.
        let mut found: BTreeMap<SSTableName, (bool, u64, u64)> = BTreeMap::new();
        for entry in &entries {
            let Ok((name, component)) = SSTableName::parse_file_name(&entry.name) else { continue };
            if entry.is_dir {
                let path = dir.join(&entry.name);
                complain(&format!("{}: a directory and not the {component} of an SSTable", path.display()));
                end = End::Failed;
                continue;
            }
            let sizes = found.entry(name).or_default();
            sizes.0 |= component == Component::Toc;
            sizes.1 += if component == Component::Data { entry.len_bytes } else { 0 };
            sizes.2 += entry.len_bytes;
        }
        let mut lines = vec![];
        for (name, (is_sealed, data_bytes, total_bytes)) in found {
            let place = SSTablePath { dir: dir.clone(), name };
            if !is_sealed {
                complain(&format!("{place}: no TOC.txt; not a finished SSTable"));
                continue;
            }
            match line(shard, &place, data_bytes, total_bytes).await {
                Ok(Some(line)) => lines.push(line),
                Ok(None) => complain(&format!("{place} was deleted meanwhile; it is left out")),
                Err(text) => {
                    complain(&text);
                    end = End::Failed;
                }
            }
        }
        if lines.is_empty() {
            continue;
        }
        match arguments.format {
            Format::Json => json.extend(lines.iter().map(|line| json_of(&dir, line))),
            Format::Text => {
                if tables > 0 {
                    out.write("\n");
                }
                out.write(&text_of(&dir, &lines));
            }
        }
        tables += 1;
    }
    if arguments.format == Format::Json {
        let text = serde_json::to_string_pretty(&json).map_err(|error| error.to_string())?;
        out.write(&(text + "\n"));
    } else if tables == 0 {
        complain(&format!("{}: no SSTable here or below", arguments.dir.display()));
    }
    Ok(end)
}

/// `None`: the SSTable has vanished.
async fn line(
    shard: &Shard,
    place: &SSTablePath,
    data_bytes: u64,
    total_bytes: u64,
) -> Result<Option<Line>, String> {
    let statistics = match read_statistics(shard.files(), place).await {
        Ok(statistics) => statistics,
        Err(error) => {
            return match shard.files().exists(&place.path(&Component::Toc)).await {
                Ok(false) => Ok(None),
                _ => Err(Finding::from(&error).to_string()),
            };
        }
    };
    let messina = place.path(&Component::Messina);
    let messina = match shard.files().read_all(&messina, IoClass::Maintenance, MESSINA_BYTES_MAX).await {
        Ok(bytes) => MessinaInfo::decode(&bytes).ok(),
        Err(_) => None,
    };
    let stats = &statistics.stats;
    Ok(Some(Line {
        name: place.name,
        total_bytes,
        data_bytes,
        ratio: (stats.compression_ratio >= 0.0).then_some(stats.compression_ratio),
        min_timestamp_us: stats.min_timestamp_us,
        max_timestamp_us: stats.max_timestamp_us,
        level: stats.sstable_level,
        partitions: messina
            .as_ref()
            .and_then(|messina| messina.partition_count)
            .unwrap_or(stats.partition_bytes.count()),
        origin: messina.and_then(|messina| messina.origin),
    }))
}

fn text_of(dir: &Path, lines: &[Line]) -> String {
    let header = [
        "SSTable",
        "partitions",
        "Data.db",
        "all files",
        "ratio",
        "min timestamp",
        "max timestamp",
        "level",
        "origin",
    ];
    let header: Vec<Cell> = header.iter().map(|name| Cell::new(*name, Style::Plain)).collect();
    let rows: Vec<Vec<Cell>> = lines
        .iter()
        .map(|line| {
            let ratio = line.ratio.map_or("-".to_owned(), |ratio| format!("{ratio:.3}"));
            let cells = [
                line.name.to_string(),
                line.partitions.to_string(),
                line.data_bytes.to_string(),
                line.total_bytes.to_string(),
                ratio,
                line.min_timestamp_us.to_string(),
                line.max_timestamp_us.to_string(),
                line.level.to_string(),
                line.origin.clone().unwrap_or_else(|| "-".to_owned()),
            ];
            cells.into_iter().map(|text| Cell::new(text, Style::Plain)).collect()
        })
        .collect();
    let bytes: u64 = lines.iter().map(|line| line.total_bytes).sum();
    let count = lines.len();
    let plural = if count == 1 { "" } else { "s" };
    let mut text = format!("{}: {count} SSTable{plural}, {bytes} bytes\n", dir.display());
    write_table(&mut text, &header, &rows, true, false);
    text
}

fn json_of(dir: &Path, line: &Line) -> serde_json::Value {
    serde_json::json!({
        "directory": dir.display().to_string(),
        "sstable": line.name.to_string(),
        "version": line.name.version.letters(),
        "generation": line.name.generation.to_string(),
        "partitions_estimate": line.partitions,
        "data_bytes": line.data_bytes,
        "total_bytes": line.total_bytes,
        "compression_ratio": line.ratio,
        "min_timestamp_us": line.min_timestamp_us,
        "max_timestamp_us": line.max_timestamp_us,
        "level": line.level,
        "origin": line.origin,
    })
}
