//! SELECT on SSTables: the server's statements, on a storage that consists of some files.
//!
//! All SSTables are opened first, so that a server may delete them meanwhile, and are read as one table:
//! merged, with deletions applied and expired data left out. The table's name comes from its directory. Its
//! columns come from the SSTables' headers, with key columns called `key` and `clustering1`, or from a CREATE
//! TABLE in a file.

use std::cell::Cell;
use std::path::Path;
use std::rc::Rc;
use std::sync::Arc;

use catalog::{Catalog, Keyspace, SchemaChange, TableSettings};
use cql::system::NodeInfo;
use cql::{ChangeSchema, ClientState, Decide, Execution, Host, Outcome, Prepared, ResultRows, Storage};
use engine::read::page::{PageLimits, PageSources, read_sources};
use engine::sharder::OwnedTokens;
use model::{Mutation, TableId, TableSchema};
use protocol::CqlError;
use protocol::client::ResponseMessage;
use protocol::{
    Envelope, HEADER_BYTES, Header, HeaderFlags, Opcode, ProtocolVersion, Reply, Response, Rows,
    SendMetadata, Values,
};
use reader::{Page, ReadCommand, ReadSpec, Reader, Source};
use runtime::{IoClass, Shard};
use server::schema_file;
use shell::{Format, push_page};
use sstable::dump::named_schema;
use sstable::name::TableDirectory;
use sstable::read::{SSTable, SSTableSource};
use sstable::tools::{Finding, SSTablePath, check_fit, merged_header};
use syntax::split_statements;
use uuid::Uuid;

use super::arguments::QueryArguments;
use super::run::{End, Out, complain, open, places};

/// Rows of a page. The columns are aligned within a page.
const PAGE_ROWS: u32 = 5_000;
const KEYSPACE: &str = "sstable";
const TABLE: &str = "rows";

/// Runs the statements and prints their results.
pub async fn run(shard: &Shard, arguments: &QueryArguments) -> Result<End, String> {
    let mut end = End::Well;
    let mut sstables = vec![];
    let places = places(shard, &arguments.files, &mut end).await;
    for place in &places {
        match open(shard, place).await {
            Ok(Some(table)) => sstables.push(table),
            Ok(None) => {}
            Err(error) => return Err(Finding::from(&error).to_string()),
        }
    }
    let Some(first) = places.first() else { return Ok(End::Failed) };
    if sstables.is_empty() {
        return Err("no SSTable is left to query".to_string());
    }
    let storage = SSTableStorage::new(shard, sstables, first, arguments.schema.as_deref())?;
    let mut out = Out::new();
    for statement in split_statements(&arguments.execute) {
        if let Err(error) = storage.run(statement.text, arguments.format, &mut out).await {
            let hint = columns_hint(&error, &storage.table, arguments.schema.is_some());
            complain(&format!("{error}{hint}"));
            return Ok(End::Failed);
        }
    }
    Ok(end)
}

/// An addition to the error about an unknown column: the table's columns, and the origin of the key columns'
/// names.
fn columns_hint(error: &CqlError, table: &TableSchema, has_schema_file: bool) -> String {
    if !error.to_string().contains("Undefined column name") {
        return String::new();
    }
    let keys = table.partition_key.iter().chain(&table.clustering).map(|column| column.name.as_str());
    let names: Vec<&str> = keys.chain(table.columns().iter().map(|column| column.name.as_str())).collect();
    let advice = match has_schema_file {
        true => "",
        false => "; SSTables do not have the names of key columns: give them with --schema FILE.cql",
    };
    format!("; it has: {}{advice}", names.join(", "))
}

/// Keyspace and table from the directories' names; default names if those are not valid.
fn names_of(place: &SSTablePath) -> (String, String) {
    let absolute = std::path::absolute(&place.dir).unwrap_or_else(|_| place.dir.clone());
    let name = |path: Option<&Path>| Some(path?.file_name()?.to_str()?.to_owned());
    let is_name = |name: &String| {
        (1..=48).contains(&name.len())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_')
    };
    let table = name(Some(&absolute)).and_then(|name| name.parse::<TableDirectory>().ok());
    match table {
        Some(directory) => {
            let keyspace = name(absolute.parent()).filter(is_name).unwrap_or_else(|| KEYSPACE.to_owned());
            (keyspace, directory.table)
        }
        None => {
            (KEYSPACE.to_owned(), name(Some(&absolute)).filter(is_name).unwrap_or_else(|| TABLE.to_owned()))
        }
    }
}

/// The table of this name in this keyspace, else the only table of this name in any keyspace, else the
/// catalog's only table.
fn pick(catalog: &Catalog, keyspace: &str, table: &str) -> Result<Arc<TableSchema>, String> {
    let all: Vec<Arc<TableSchema>> = catalog.all_tables().map(|table| table.schema.clone()).collect();
    let named: Vec<&Arc<TableSchema>> = all.iter().filter(|schema| schema.name == table).collect();
    match (catalog.schema(keyspace, table), &named[..], &all[..]) {
        (Some(schema), ..) => Ok(schema.clone()),
        (None, [only], _) => Ok((*only).clone()),
        (None, _, [only]) => Ok(only.clone()),
        (None, ..) => {
            let names: Vec<String> = all.iter().map(|schema| schema.full_name()).collect();
            Err(format!("it has no table {keyspace}.{table} but {}", names.join(", ")))
        }
    }
}

/// Some SSTables as one table.
struct SSTableStorage {
    shard: Shard,
    catalog: Catalog,
    table: Arc<TableSchema>,
    sstables: Vec<Rc<SSTable>>,
    last_timestamp_us: Cell<i64>,
}

impl SSTableStorage {
    fn new(
        shard: &Shard,
        sstables: Vec<Rc<SSTable>>,
        place: &SSTablePath,
        schema_file: Option<&Path>,
    ) -> Result<Self, String> {
        let (keyspace, table) = names_of(place);
        let headers = sstables.iter().map(|sstable| &sstable.statistics().header);
        let (catalog, table) = match schema_file {
            Some(file) => {
                let catalog = schema_file::load(file, Some(&keyspace))?;
                let table = pick(&catalog, &keyspace, &table)
                    .map_err(|error| format!("{}: {error}", file.display()))?;
                (catalog, table)
            }
            None => {
                let merged = merged_header(headers).map_err(|conflict| {
                    let sstable = &sstables[conflict.index];
                    format!(
                        "{}: {conflict}; query those of one table",
                        sstable.dir().join(sstable.name().to_string()).display()
                    )
                })?;
                let header = merged.ok_or("no SSTable is left to query")?;
                let table = named_schema(&header, &keyspace, &table)
                    .map_err(|error| format!("{place}: its header describes no table: {error}"))?;
                let made = Keyspace::simple(keyspace.as_str())
                    .and_then(|keyspace| Catalog::empty().create_keyspace(keyspace))
                    .and_then(|(catalog, _)| catalog.create_table(table.clone(), TableSettings::default()));
                (made.map_err(|error| error.to_string())?.0, table)
            }
        };
        for sstable in &sstables {
            check_fit(&table, &sstable.statistics().header).map_err(|misfit| {
                let name = sstable.dir().join(sstable.name().to_string());
                format!("{} is not an SSTable of {}: {misfit}", name.display(), table.full_name())
            })?;
        }
        let last_timestamp_us = Cell::new(0);
        Ok(Self { shard: shard.clone(), catalog, table, sstables, last_timestamp_us })
    }

    async fn run(&self, text: &str, format: Format, out: &mut Out) -> Result<(), CqlError> {
        let prepared = Prepared::new(&self.catalog, Some(&self.table.keyspace), text)?;
        let mut state: Option<Vec<u8>> = None;
        let now_us = self.wall_us();
        let (mut count, mut is_first) = (0, true);
        loop {
            let execution = Execution {
                now_us,
                timestamp_us: None,
                now_s: None,
                page_rows: Some(PAGE_ROWS),
                paging_state: state.as_deref(),
            };
            let values = Values::default();
            let outcome = Box::pin(prepared.execute(self, &values, &execution, &mut vec![])).await?;
            let Outcome::Rows(rows) = outcome else { return Ok(()) };
            let page = decode(&rows)?;
            let columns = page.metadata.columns.unwrap_or_default();
            if is_first && format == Format::Table {
                out.write("\n");
            }
            let mut text = String::new();
            push_page(&mut text, format, &columns, &page.rows, is_first);
            out.write(&text);
            count += page.rows.len();
            is_first = false;
            state = rows.paging_state;
            if state.is_none() {
                break;
            }
        }
        if format == Format::Table {
            out.write(&format!("\n({count} row{})\n", if count == 1 { "" } else { "s" }));
        }
        Ok(())
    }
}

/// Rows as a client decodes them.
fn decode(rows: &ResultRows) -> Result<Rows, CqlError> {
    let version = ProtocolVersion::V5;
    let mut message = vec![];
    let mut writer = Reply::new(version, 0).rows(&mut message, &rows.columns, SendMetadata::Full);
    writer.encoded_rows(rows.cells(), rows.count());
    writer.finish(None);
    let body = &message[HEADER_BYTES..];
    let header = Header {
        version,
        flags: HeaderFlags::default(),
        stream: 0,
        opcode: Opcode::Result,
        body_bytes: body.len() as u32,
    };
    match ResponseMessage::decode(&Envelope { header, body })?.response {
        Response::Rows(rows) => Ok(rows),
        other => Err(CqlError::Server(format!("rows became {other:?}"))),
    }
}

struct Sources<'a> {
    storage: &'a SSTableStorage,
    bypass_cache: bool,
}

impl PageSources for Sources<'_> {
    fn schema(&self) -> Arc<TableSchema> {
        self.storage.table.clone()
    }

    fn readers(&self, spec: &ReadSpec) -> Vec<Box<dyn Reader>> {
        let source = |sstable: &Rc<SSTable>| {
            SSTableSource::new(sstable.clone(), IoClass::Maintenance)
                .bypass_cache(self.bypass_cache)
                .reader(spec)
        };
        let wanted = |sstable: &&Rc<SSTable>| {
            sstable.may_contain_range(&spec.partitions)
                && sstable.may_contain_clustering(&spec.schema, &spec.ranges)
        };
        let readers: Vec<_> = self.storage.sstables.iter().filter(wanted).map(source).collect();
        if readers.is_empty() { vec![source(&self.storage.sstables[0])] } else { readers }
    }

    fn owned_tokens(&self) -> OwnedTokens {
        OwnedTokens::ALL
    }
}

fn refused<T>() -> Result<T, CqlError> {
    Err(CqlError::Invalid(
        "files are only read here; statements that change something need a server".to_string(),
    ))
}

impl Storage for SSTableStorage {
    fn catalog(&self) -> Catalog {
        self.catalog.clone()
    }

    async fn apply(&self, _: Mutation) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_batch(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn apply_unlogged(&self, _: Vec<Mutation>) -> Result<(), CqlError> {
        refused()
    }

    async fn read(&self, command: ReadCommand) -> Result<Page, CqlError> {
        if command.table != self.table.id {
            let text = format!("only {} is here", self.table.full_name());
            return Err(CqlError::Invalid(text));
        }
        let sources = Sources { storage: self, bypass_cache: command.bypass_cache };
        let read = read_sources(&self.shard, &sources, &command, &PageLimits::NONE, None).await;
        read.map(|(page, _)| page).map_err(|error| CqlError::Server(error.to_string()))
    }

    async fn read_modify_write(&self, _: ReadCommand, _: Decide) -> Result<Page, CqlError> {
        refused()
    }

    async fn change_schema(&self, _: ChangeSchema) -> Result<Vec<SchemaChange>, CqlError> {
        refused()
    }

    async fn truncate(&self, _: TableId) -> Result<(), CqlError> {
        refused()
    }
}

impl Host for SSTableStorage {
    fn wall_us(&self) -> i64 {
        self.shard.wall_us()
    }

    fn timestamp_us(&self) -> i64 {
        let timestamp_us = self.wall_us().max(self.last_timestamp_us.get() + 1);
        self.last_timestamp_us.set(timestamp_us);
        timestamp_us
    }

    fn random_u64(&self) -> u64 {
        self.shard.random_u64()
    }

    fn node_info(&self) -> NodeInfo {
        NodeInfo::new(self.host_id(), std::net::IpAddr::from([127, 0, 0, 1]), 9042)
    }

    fn host_id(&self) -> Uuid {
        Uuid::nil()
    }
}

impl ClientState for SSTableStorage {}
