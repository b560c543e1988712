//! Restores tables of a backup into a node that has others: all of a keyspace, or one, also under another
//! name.
//!
//! 1. The objects of the tables are fetched into `restoring` in the data directory, and checked. If one is
//!    missing or damaged, nothing was changed.
//! 2. The tables are created by the statements in the manifest. A table that exists is refused, or with
//!    `merge` its rows are added to: of two versions of a cell the later one counts, as always.
//! 3. The SSTables of each table are imported, as by `nodetool import`: all of a table or none.
//! 4. Materialized views are created last, and the node builds them.
//!
//! If a step after the first fails, the tables that it created are dropped.

use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use backup::manifest::TableEntry;
use backup::pace::Pace;
use backup::{BackupError, Manifest, Restored, Target, fetch};
use engine::Engine;
use serde::Deserialize;
use syntax::{Ident, Span, Statement, parse, split_statements};

use crate::schema_apply::execute;

/// The directory in the data directory for SSTables that are being restored.
const RESTORING: &str = "restoring";

/// What is restored.
#[derive(Clone, Debug, Default, Deserialize)]
pub struct TableRestore {
    pub keyspace: String,
    /// `None`: all tables of the keyspace.
    pub table: Option<String>,
    /// The name of the restored table, as `keyspace.table` or `table`.
    #[serde(rename = "as")]
    pub new_name: Option<String>,
    /// Tables that exist get the rows of the backup too.
    #[serde(default)]
    pub merge: bool,
}

/// A table of the backup, and its name in the node.
struct Item<'a> {
    entry: &'a TableEntry,
    keyspace: String,
    name: String,
    is_view: bool,
    exists: bool,
    dir: PathBuf,
}

/// See the head of this file. It blocks the thread, which must not be a shard's.
///
/// # Errors
/// The backup has no such table, the table exists, an object is missing or damaged, or the import fails.
pub fn restore_tables(
    engine: &Engine,
    data_dir: &Path,
    target: &dyn Target,
    manifest: &Manifest,
    asked: &TableRestore,
    io_bytes_per_s: u64,
) -> Result<Restored, BackupError> {
    let staging = data_dir.join(RESTORING);
    remove_left(data_dir)?;
    let items = choose(engine, manifest, asked, &staging)?;
    let result = fetch_all(target, &items, io_bytes_per_s).and_then(|()| load_all(engine, &items));
    // After an error it is removed by the next restore or start.
    let removed = remove_left(data_dir);
    result?;
    removed?;
    let users = items.iter().map(|item| format!("{}.{}", item.keyspace, item.name));
    Ok(Restored {
        id: manifest.id.clone(),
        tables: users.collect(),
        files: items.iter().map(|item| item.entry.files.len() as u64).sum(),
        bytes: items.iter().map(|item| item.entry.bytes()).sum(),
        mutations: 0,
    })
}

/// Removes what an interrupted restore has left in a data directory.
///
/// # Errors
/// It cannot be removed.
pub fn remove_left(data_dir: &Path) -> Result<(), BackupError> {
    let staging = data_dir.join(RESTORING);
    match fs::remove_dir_all(&staging) {
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(BackupError::of_file("remove", &staging, &error))
        }
        _removed => Ok(()),
    }
}

fn choose<'a>(
    engine: &Engine,
    manifest: &'a Manifest,
    asked: &TableRestore,
    staging: &Path,
) -> Result<Vec<Item<'a>>, BackupError> {
    let catalog = engine.catalog()?;
    let is_asked = |entry: &&TableEntry| {
        !entry.is_system
            && entry.keyspace == asked.keyspace
            && asked.table.as_ref().is_none_or(|table| *table == entry.name)
    };
    if asked.new_name.is_some() && asked.table.is_none() {
        return Err(BackupError("another name needs one table: name it".to_string()));
    }
    let mut items = vec![];
    for (index, entry) in manifest.tables.iter().filter(is_asked).enumerate() {
        let (keyspace, name) = match &asked.new_name {
            None => (entry.keyspace.clone(), entry.name.clone()),
            Some(new) => match new.split_once('.') {
                Some((keyspace, name)) => (keyspace.to_string(), name.to_string()),
                None => (entry.keyspace.clone(), new.clone()),
            },
        };
        let exists = catalog.table(&keyspace, &name).is_some();
        if exists && !asked.merge {
            return Err(BackupError(format!(
                "{keyspace}.{name} exists; drop it, restore under another name (--as), or add the rows of the backup to it \
                 (--merge)"
            )));
        }
        let is_view = is_view(&entry.schema);
        if is_view && asked.new_name.is_some() {
            return Err(BackupError(format!(
                "{} is a materialized view; restore its base table under another name, and create a view of that",
                entry.full_name()
            )));
        }
        let dir = staging.join(index.to_string());
        items.push(Item { entry, keyspace, name, is_view, exists, dir });
    }
    if items.is_empty() {
        let what = match &asked.table {
            Some(table) => format!("table {}.{table}", asked.keyspace),
            None => format!("tables in a keyspace {}", asked.keyspace),
        };
        return Err(BackupError(format!("backup {} has no {what}", manifest.id)));
    }
    // Views come after their base tables.
    items.sort_by_key(|item| item.is_view);
    Ok(items)
}

fn is_view(schema: &str) -> bool {
    split_statements(schema).iter().any(|statement| {
        matches!(parse(statement.text), Ok(parsed) if matches!(parsed.statement, Statement::CreateView(_)))
    })
}

fn fetch_all(target: &dyn Target, items: &[Item<'_>], io_bytes_per_s: u64) -> Result<(), BackupError> {
    let mut pace = Pace::new(io_bytes_per_s);
    for item in items.iter().filter(|item| !item.is_view) {
        fs::create_dir_all(&item.dir).map_err(|error| BackupError::of_file("create", &item.dir, &error))?;
        fetch::fetch_table(target, item.entry, &item.dir, &mut pace)?;
    }
    Ok(())
}

fn load_all(engine: &Engine, items: &[Item<'_>]) -> Result<(), BackupError> {
    let mut created: Vec<&Item<'_>> = vec![];
    for item in items {
        let loaded = load(engine, item, &mut created);
        if let Err(error) = loaded {
            for item in created.into_iter().rev() {
                drop_table(engine, item)?;
            }
            return Err(BackupError(format!(
                "{error}; the tables that the restore had created were dropped"
            )));
        }
    }
    Ok(())
}

fn load<'a>(engine: &Engine, item: &'a Item<'a>, created: &mut Vec<&'a Item<'a>>) -> Result<(), BackupError> {
    if !item.exists {
        let statements = statements(item)?;
        created.push(item);
        for statement in statements {
            execute(engine, &statement)?;
        }
    }
    // A view has the rows of its base table.
    if item.is_view {
        return Ok(());
    }
    let table = engine.table(&item.keyspace, &item.name)?;
    engine.import(table.id, &item.dir)?;
    Ok(())
}

fn drop_table(engine: &Engine, item: &Item<'_>) -> Result<(), BackupError> {
    if engine.catalog()?.table(&item.keyspace, &item.name).is_none() {
        return Ok(());
    }
    let kind = if item.is_view { "MATERIALIZED VIEW" } else { "TABLE" };
    let quoted = |name: &str| format!("\"{}\"", name.replace('"', "\"\""));
    let statement = format!("DROP {kind} {}.{}", quoted(&item.keyspace), quoted(&item.name));
    Ok(execute(engine, &statement)?)
}

/// The statements that create the table, with its new name. Under another name it has another id and no
/// secondary indexes, whose names are taken.
fn statements(item: &Item<'_>) -> Result<Vec<String>, BackupError> {
    let entry = item.entry;
    let is_renamed = (&entry.keyspace, &entry.name) != (&item.keyspace, &item.name);
    let mut out = vec![];
    for statement in split_statements(&entry.schema) {
        if !is_renamed {
            out.push(statement.text.to_string());
            continue;
        }
        let parsed = parse(statement.text);
        let parsed =
            parsed.map_err(|error| format!("the schema of {} is wrong: {error}", entry.full_name()))?;
        let name = |text: &str| Ident { text: text.to_string(), span: Span::default() };
        match parsed.statement {
            Statement::CreateTable(mut create) => {
                create.name.keyspace = Some(name(&item.keyspace));
                create.name.name = name(&item.name);
                create.with.properties.retain(|property| !property.name.text.eq_ignore_ascii_case("id"));
                out.push(Statement::CreateTable(create).to_string());
            }
            Statement::AlterTable(mut alter) => {
                alter.name.keyspace = Some(name(&item.keyspace));
                alter.name.name = name(&item.name);
                out.push(Statement::AlterTable(alter).to_string());
            }
            Statement::CreateKeyspace(mut create) => {
                create.name = name(&item.keyspace);
                out.push(Statement::CreateKeyspace(create).to_string());
            }
            Statement::CreateType(mut create) => {
                create.name.keyspace = Some(name(&item.keyspace));
                out.push(Statement::CreateType(create).to_string());
            }
            _index => {}
        }
    }
    Ok(out)
}
