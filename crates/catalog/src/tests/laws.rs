//! The law of the store: a written catalog is loaded unchanged, after any previous changes, in any order, and
//! also if a crash interrupted the writes.

use std::collections::BTreeMap;
use std::sync::Arc;

use base::rng::Rng;
use model::types::{UdtField, UserType};
use model::{
    Codec, Column, ColumnId, ColumnKind, Compression, CqlType, IndexDefinition, IndexPart, Mutation,
    Partition, PartitionKey, Purge, TableId, TableOptions, TableSchema,
};
use uuid::Uuid;

use crate::schema::catalog::Changed;
use crate::schema::indexes::{index_from_options, local_target_text, target_text};
use crate::{
    Catalog, CatalogError, ColumnMask, Keyspace, LevelChange, MaskArgument, Permission, Permissions,
    Resource, RoleChange, SchemaChange, TableSettings, UserAggregate, UserFunction, Workload, load,
    mutations_for,
};

const NOW_S: u32 = 1_700_000_000;

/// The contents of the system tables.
#[derive(Clone, Default)]
struct Store {
    partitions: BTreeMap<(TableId, PartitionKey), (Arc<TableSchema>, Partition)>,
}

impl Store {
    fn apply(&mut self, mutations: &[Mutation]) {
        for Mutation { schema, key, partition } in mutations {
            let at = (schema.id, key.clone());
            let (_, held) =
                self.partitions.entry(at).or_insert_with(|| (schema.clone(), Partition::default()));
            held.merge(partition, schema);
        }
    }

    fn load(&self) -> Result<Catalog, CatalogError> {
        load(self.partitions.iter().map(|((id, key), (schema, partition))| {
            let mut live = partition.clone();
            live.compact(schema, &Purge::everything(NOW_S));
            (*id, key.clone(), live)
        }))
    }
}

const KEYSPACES: [&str; 2] = ["ks", "Other_1"];
const TABLES: [&str; 3] = ["t", "Users", "select"];
const TYPES: [&str; 4] = ["a", "b", "My Type", "set"];
const COLUMNS: [&str; 5] = ["c", "d", "Mixed", "it's", "z \"q\""];
const KEY_TYPES: [&str; 5] = ["int", "text", "frozen<list<int>>", "frozen<a>", "frozen<tuple<int, b>>"];
const COLUMN_TYPES: [&str; 14] = [
    "int",
    "text",
    "blob",
    "ascii",
    "list<int>",
    "set<text>",
    "map<text, frozen<list<int>>>",
    "frozen<map<text, list<frozen<b>>>>",
    "frozen<a>",
    "b",
    "list<frozen<\"My Type\">>",
    "frozen<tuple<int, a, \"set\">>",
    "vector<float, 3>",
    "counter",
];

fn name_of(rng: &mut Rng, names: &[&'static str]) -> &'static str {
    names[rng.index(names.len())]
}

fn keyspace(rng: &mut Rng) -> Result<Keyspace, CatalogError> {
    let factor = rng.below(4).to_string();
    let options = match rng.below(2) {
        0 => [("class", "SimpleStrategy".to_string()), ("replication_factor", factor)],
        _ => [("class", "NetworkTopologyStrategy".to_string()), ("dc'1", factor)],
    };
    let keyspace = Keyspace::new(name_of(rng, &KEYSPACES), options, rng.chance(1, 2))?;
    let tablets = ("tablets".to_string(), "{'enabled': 'false'}".to_string());
    let others = if rng.chance(1, 2) { [tablets].into() } else { BTreeMap::new() };
    Ok(Keyspace { others, ..keyspace })
}

fn user_type(rng: &mut Rng, catalog: &Catalog, keyspace: &str) -> Result<UserType, CatalogError> {
    let name = name_of(rng, &TYPES).to_string();
    let mut fields = match catalog.user_type(keyspace, &name) {
        Some(old) => old.fields.clone(),
        None => vec![],
    };
    for _ in 0..1 + rng.below(2) {
        let field_type = catalog.parse_type(keyspace, name_of(rng, &COLUMN_TYPES))?;
        fields.push(UdtField { name: format!("{}{}", name_of(rng, &COLUMNS), fields.len()), field_type });
    }
    if rng.chance(1, 3) {
        fields[0].name = format!("renamed{}", rng.below(100));
    }
    Ok(UserType { keyspace: keyspace.to_string(), name, fields })
}

fn options(rng: &mut Rng) -> TableOptions {
    TableOptions {
        comment: name_of(rng, &["", "a table", "it's"]).to_string(),
        compression: match rng.below(5) {
            0 => None,
            1 => Some(Compression::new(Codec::Snappy, 4096)),
            2 => Some(Compression::new(Codec::Deflate, 8192)),
            3 => {
                let codec = Codec::Zstd { level: 3 - rng.below(5) as i32 };
                Some(Compression { dictionary: rng.chance(1, 2), ..Compression::new(codec, 16_384) })
            }
            _ => Some(Compression::lz4(4096 << rng.below(3))),
        },
        bloom_filter_fp_chance: *rng.pick(&[0.01, 0.1, 1.0]),
        gc_grace_s: *rng.pick(&[0, 864_000, i32::MAX as u32]),
        crc_check_chance: *rng.pick(&[0.0, 0.5, 1.0]),
        ..TableOptions::default()
    }
}

fn settings(rng: &mut Rng) -> TableSettings {
    let mut settings = TableSettings::default();
    if rng.chance(1, 2) {
        settings.compaction = [("class".to_string(), "LeveledCompactionStrategy".to_string())].into();
        settings.memtable = "skiplist".to_string();
        settings.extensions.insert("e".to_string(), vec![0, 255]);
        settings.others.insert("tombstone_gc".to_string(), "{'mode': 'repair'}".to_string());
    }
    settings
}

fn new_table(
    rng: &mut Rng,
    catalog: &Catalog,
    keyspace: &str,
    id: u128,
) -> Result<Arc<TableSchema>, CatalogError> {
    // A type that does not exist, or a counter next to other columns, would make most tables invalid.
    let parse = |text: &str| match catalog.parse_type(keyspace, text) {
        Ok(ty) if !ty.is_counter() => Ok(ty),
        Ok(_) | Err(_) => Ok::<_, CatalogError>(CqlType::Int),
    };
    if rng.chance(1, 10) {
        let builder = TableSchema::builder(keyspace, name_of(rng, &TABLES)).id(Uuid::from_u128(id));
        let builder = builder.partition_key("p", CqlType::Int).regular("c", CqlType::Counter);
        return builder.build().map_err(|error| CatalogError::Invalid(error.to_string()));
    }
    let mut builder =
        TableSchema::builder(keyspace, name_of(rng, &TABLES)).id(Uuid::from_u128(id)).options(options(rng));
    for i in 0..1 + rng.below(2) {
        builder = builder.partition_key(format!("p{i}"), parse(name_of(rng, &KEY_TYPES))?);
    }
    for i in 0..rng.below(3) {
        let ty = parse(name_of(rng, &KEY_TYPES))?;
        let ty = if rng.chance(1, 2) { CqlType::reversed(ty) } else { ty };
        builder = builder.clustering(format!("k{i}"), ty);
    }
    for name in COLUMNS {
        let ty = parse(name_of(rng, &COLUMN_TYPES))?;
        match rng.below(4) {
            0 => builder = builder.static_column(name, ty),
            1 => builder = builder.regular(name, ty),
            _ => {}
        }
    }
    builder.build_with_ids_from(rng.below(4) as u32).map_err(|error| CatalogError::Invalid(error.to_string()))
}

/// An index of a column that exists, mostly of a part that the column has.
fn index(rng: &mut Rng, schema: &TableSchema) -> IndexDefinition {
    let keys = schema.partition_key.iter().chain(&schema.clustering).map(|key| (key.name.as_str(), &key.ty));
    let columns = schema.columns().iter().map(|column| (column.name.as_str(), &column.ty));
    let all: Vec<(&str, &CqlType)> = keys.chain(columns).collect();
    let (column, ty) = *rng.pick(&all);
    let part = match ty {
        CqlType::Map { multi_cell: true, .. } => {
            *rng.pick(&[IndexPart::Keys, IndexPart::Values, IndexPart::Entries])
        }
        ty if ty.is_collection() && ty.is_multi_cell() => IndexPart::Values,
        _ => IndexPart::Value,
    };
    let mut options = BTreeMap::new();
    let (kind, target) = match rng.below(3) {
        0 => ("COMPOSITES", local_target_text(&["p0"], column)),
        1 => {
            options.insert("class_name".to_string(), "sai".to_string());
            options.insert("case_sensitive".to_string(), "false".to_string());
            ("CUSTOM", target_text(part, column))
        }
        _ => ("COMPOSITES", target_text(part, column)),
    };
    options.insert("target".to_string(), target);
    let id = Uuid::from_u128(rng.next_u64().into());
    let name = format!("{}_{}", name_of(rng, &["i", "Index"]), rng.below(4));
    index_from_options(id, &name, kind, options).expect("the options are those of an index")
}

fn altered(
    rng: &mut Rng,
    catalog: &Catalog,
    old: &TableSchema,
    time_us: i64,
) -> Result<Arc<TableSchema>, CatalogError> {
    let mut builder = old.to_builder();
    match rng.below(6) {
        4 => builder = builder.index(Arc::new(index(rng, old))),
        5 if !old.indexes.is_empty() => builder = builder.remove_index(&rng.pick(&old.indexes).name),
        0 => builder = builder.options(options(rng)),
        1 => builder = builder.drop_column(name_of(rng, &COLUMNS), time_us),
        _ => {
            let ty = catalog.parse_type(&old.keyspace, name_of(rng, &COLUMN_TYPES))?;
            let name = name_of(rng, &COLUMNS);
            let was_static =
                old.dropped.iter().any(|dropped| dropped.name == name && dropped.kind == ColumnKind::Static);
            builder = if was_static { builder.static_column(name, ty) } else { builder.regular(name, ty) };
        }
    }
    builder
        .build_with_ids_from(old.column_id_bound())
        .map_err(|error| CatalogError::Invalid(error.to_string()))
}

const FUNCTIONS: [&str; 3] = ["f", "Total", "a b"];

/// A type for arguments and results. In a function, a tuple and a frozen type are the same.
fn function_type(rng: &mut Rng, catalog: &Catalog, keyspace: &str) -> Result<CqlType, CatalogError> {
    catalog.parse_type(keyspace, name_of(rng, &COLUMN_TYPES))
}

fn function(rng: &mut Rng, catalog: &Catalog, keyspace: &str) -> Result<UserFunction, CatalogError> {
    let returns = function_type(rng, catalog, keyspace)?;
    let body = name_of(rng, &["return nil", "return '$$'", ""]);
    let mut function = UserFunction::new(keyspace, name_of(rng, &FUNCTIONS), returns.clone(), "lua", body)
        .called_on_null(rng.chance(1, 2));
    for name in ["a", "it's", "C"].into_iter().take(rng.index(4)) {
        // Often a state function.
        let ty = if rng.chance(1, 2) { returns.clone() } else { function_type(rng, catalog, keyspace)? };
        function = function.argument(name, ty);
    }
    Ok(function)
}

fn aggregate(rng: &mut Rng, catalog: &Catalog, keyspace: &str) -> Result<UserAggregate, CatalogError> {
    let is_state = |function: &&Arc<UserFunction>| {
        function.argument_types.first().is_some_and(|first| first.freeze() == function.returns.freeze())
    };
    let none = || CatalogError::Invalid("no function".to_string());
    let known: Vec<_> = catalog.functions(keyspace).filter(is_state).collect();
    let state_function =
        if known.is_empty() { Err(none())? } else { Arc::clone(known[rng.index(known.len())]) };
    let of_state = [state_function.returns.clone()];
    let final_function = catalog.functions(keyspace).find(|known| known.has_arguments(&of_state)).cloned();
    let initial = match &of_state[0] {
        CqlType::Int => Some(7i32.to_be_bytes().to_vec()),
        CqlType::Text => Some(b"it's".to_vec()),
        _ => None,
    };
    Ok(UserAggregate {
        keyspace: keyspace.to_string(),
        name: name_of(rng, &FUNCTIONS).to_string(),
        argument_types: state_function.argument_types[1..].to_vec(),
        state_function,
        final_function: final_function.filter(|_| rng.chance(1, 2)),
        initial: initial.filter(|_| rng.chance(1, 2)),
    })
}

fn dropped_function(rng: &mut Rng, catalog: &Catalog, keyspace: &str) -> Changed {
    let aggregates: Vec<_> = catalog.aggregates(keyspace).collect();
    if !aggregates.is_empty() && rng.chance(1, 2) {
        return catalog.drop_aggregate(aggregates[rng.index(aggregates.len())], "one");
    }
    let functions: Vec<_> = catalog.functions(keyspace).collect();
    if functions.is_empty() {
        return Err(CatalogError::Invalid("no function".to_string()));
    }
    catalog.drop_function(functions[rng.index(functions.len())], "one")
}

const KINDS: u64 = 12;

fn change(rng: &mut Rng, catalog: &Catalog, kind: u64, time_us: i64) -> Changed {
    let name = name_of(rng, &KEYSPACES);
    let table = catalog.table(name, name_of(rng, &TABLES));
    let table = table.ok_or_else(|| CatalogError::Invalid("no table".to_string()));
    match kind {
        0 => catalog.create_keyspace(keyspace(rng)?),
        1 => catalog.alter_keyspace(keyspace(rng)?),
        2 if rng.chance(1, 4) => catalog.drop_keyspace(name),
        2 | 3 => catalog.create_table(new_table(rng, catalog, name, time_us as u128)?, settings(rng)),
        4 => catalog.alter_table(altered(rng, catalog, &table?.schema, time_us)?, settings(rng)),
        5 => catalog.drop_table(name, name_of(rng, &TABLES)),
        6 => catalog.create_type(user_type(rng, catalog, name)?),
        7 => catalog.alter_type(user_type(rng, catalog, name)?),
        8 => catalog.drop_type(name, name_of(rng, &TYPES)),
        9 => catalog.put_function(function(rng, catalog, name)?),
        10 => catalog.put_aggregate(aggregate(rng, catalog, name)?),
        11 => dropped_function(rng, catalog, name),
        _ => unreachable!(),
    }
}

/// A random kind of change; tables are created and altered most often.
fn kind(rng: &mut Rng) -> u64 {
    *rng.pick(&[0, 1, 2, 3, 3, 3, 4, 4, 4, 4, 4, 4, 5, 6, 6, 6, 7, 7, 8, 9, 9, 9, 10, 10, 11])
}

#[track_caller]
fn check_same(loaded: &Catalog, expect: &Catalog, what: &str) {
    assert!(loaded == expect, "{what}: loaded\n{loaded:#?}\nexpected\n{expect:#?}");
    assert_eq!(loaded.schema_version(), expect.schema_version(), "{what}");
}

#[test]
fn what_is_written_is_read_back_step_by_step() {
    let mut done = [0; KINDS as usize];
    let mut dropped_columns = 0;
    for seed in 0..450 {
        let mut rng = Rng::new(seed);
        let mut store = Store::default();
        let mut catalog = Catalog::empty();
        // A second store receives several changes at once.
        let (mut lazy_store, mut lazy_catalog) = (Store::default(), Catalog::empty());
        for step in 0..60 {
            let time_us = 1_000_000 + step * 1000 + rng.below(900) as i64;
            let kind = kind(&mut rng);
            let Ok((new, changes)) = change(&mut rng, &catalog, kind, time_us) else { continue };
            done[kind as usize] += 1;
            assert!(!changes.is_empty(), "seed {seed} step {step}");
            let mut mutations = mutations_for(&catalog, &new, time_us, NOW_S);
            for i in (1..mutations.len()).rev() {
                mutations.swap(i, rng.index(i + 1));
            }
            store.apply(&mutations);
            catalog = new;
            check_same(&store.load().unwrap(), &catalog, &format!("seed {seed} step {step}"));
            if rng.chance(1, 5) {
                lazy_store.apply(&mutations_for(&lazy_catalog, &catalog, time_us, NOW_S));
                lazy_catalog = catalog.clone();
                check_same(&lazy_store.load().unwrap(), &catalog, &format!("seed {seed} step {step} lazy"));
            }
        }
        dropped_columns += catalog.all_tables().map(|table| table.schema.dropped.len()).sum::<usize>();
        let mut fresh = Store::default();
        fresh.apply(&mutations_for(&Catalog::empty(), &catalog, 1, NOW_S));
        check_same(&fresh.load().unwrap(), &catalog, &format!("seed {seed} fresh"));
        let mut emptied = store;
        emptied.apply(&mutations_for(&catalog, &Catalog::empty(), i64::MAX / 2, NOW_S));
        check_same(&emptied.load().unwrap(), &Catalog::empty(), &format!("seed {seed} emptied"));
    }
    assert!(done.iter().all(|done| *done > 20), "every kind of change happens: {done:?}");
    assert!(dropped_columns > 20, "{dropped_columns} dropped columns");
}

#[test]
fn interrupted_writes_leave_a_usable_catalog() {
    let mut between = 0;
    for seed in 1000..1300 {
        let mut rng = Rng::new(seed);
        let mut store = Store::default();
        let mut catalog = Catalog::empty();
        for step in 0..40 {
            let time_us = 1_000_000 + step * 1000 + rng.below(900) as i64;
            let kind = kind(&mut rng);
            let Ok((new, _)) = change(&mut rng, &catalog, kind, time_us) else { continue };
            let mutations = mutations_for(&catalog, &new, time_us, NOW_S);
            let mut cut = store.clone();
            for (i, mutation) in mutations.iter().enumerate() {
                let torn = cut.load().unwrap_or_else(|error| panic!("seed {seed} step {step}.{i}: {error}"));
                let names = |catalog: &Catalog| {
                    catalog.all_tables().map(|t| t.schema.full_name()).collect::<Vec<_>>()
                };
                let either = [names(&catalog), names(&new)];
                assert!(either.contains(&names(&torn)), "seed {seed} step {step}.{i}: whole tables only");
                for table in torn.all_tables() {
                    let id_in = |catalog: &Catalog, name: &str| {
                        Some(catalog.table_by_id(table.schema.id)?.schema.column_named(name)?.id)
                    };
                    for column in table.schema.columns() {
                        let either = [&catalog, &new].map(|catalog| id_in(catalog, &column.name));
                        assert!(either.contains(&Some(column.id)), "seed {seed} step {step}.{i}: {column:?}");
                    }
                }
                cut.apply(std::slice::from_ref(mutation));
            }
            if rng.chance(1, 3) {
                let written = rng.index(mutations.len() + 1);
                store.apply(&mutations[..written]);
                let torn = store.load().unwrap();
                between += usize::from(torn != catalog && torn != new);
                catalog = torn;
            } else {
                store.apply(&mutations);
                check_same(&store.load().unwrap(), &new, &format!("seed {seed} step {step}"));
                catalog = new;
            }
        }
    }
    assert!(between > 0, "some cuts leave something between the two");
}

#[test]
fn unchanged_catalogs_need_no_writes() {
    let (catalog, _) = some_catalog();
    assert_eq!(mutations_for(&catalog, &catalog.clone(), 5, NOW_S), []);
    let mut store = Store::default();
    store.apply(&mutations_for(&Catalog::empty(), &catalog, 5, NOW_S));
    assert_eq!(mutations_for(&store.load().unwrap(), &catalog, 6, NOW_S), []);
}

#[test]
fn the_version_is_that_of_the_contents() {
    let (catalog, _) = some_catalog();
    let version = catalog.schema_version();
    assert_eq!(version, catalog.with_system_tables().schema_version());
    let mut old = catalog.schema("ks", "t").unwrap().to_builder();
    old = old.regular("more", CqlType::Int);
    let (other, _) = catalog.alter_table(old.build().unwrap(), TableSettings::default()).unwrap();
    assert_ne!(version, other.schema_version());
    assert_ne!(version, Catalog::empty().schema_version());
    assert_eq!(version.get_version_num(), 3);
}

#[test]
fn system_tables_are_stored_like_any_other() {
    let catalog = some_catalog().0.with_system_tables();
    assert_eq!(catalog.tables("system_schema").count(), 11);
    let mut store = Store::default();
    store.apply(&mutations_for(&Catalog::empty(), &catalog, 5, NOW_S));
    let loaded = store.load().unwrap();
    check_same(&loaded, &catalog, "with system tables");
    for schema in crate::system_tables() {
        assert_eq!(loaded.schema(&schema.keyspace, &schema.name), Some(&schema));
    }
    assert!(loaded == loaded.with_system_tables());
}

/// If a column is dropped and another one added, numbering continues. The dropped column gets its own number
/// when it is added again.
#[test]
fn numbers_are_never_used_again_by_other_columns() {
    let (catalog, _) = some_catalog();
    let old = catalog.schema("ks", "t").unwrap();
    let builder = old.to_builder().drop_column("v", 1_234_567).regular("x", CqlType::Int);
    let new = builder.build_with_ids_from(old.column_id_bound()).unwrap();
    let (catalog, _) = catalog.alter_table(new, TableSettings::default()).unwrap();
    let mut store = Store::default();
    store.apply(&mutations_for(&Catalog::empty(), &catalog, 5, NOW_S));
    let loaded = store.load().unwrap();
    let table = loaded.schema("ks", "t").unwrap();
    assert_eq!((table.column_named("x").unwrap().id, table.column_id_bound()), (ColumnId(2), 3));
    let was = old.column_named("v").unwrap().id;
    assert_eq!(table.dropped[0].id, Some(was));
    let again = table.to_builder().regular("v", CqlType::Int).build_with_ids_from(3).unwrap();
    let (again, _) = loaded.alter_table(again, TableSettings::default()).unwrap();
    assert_eq!(again.schema("ks", "t").unwrap().column_named("v").unwrap().id, was);
    assert_eq!(table.dropped[0].dropped_time_us, 1_234_567, "to the microsecond");
    let gone = table.to_builder().drop_column("x", 2_000_001).build_with_ids_from(3).unwrap();
    let (catalog, _) = loaded.alter_table(gone, TableSettings::default()).unwrap();
    store.apply(&mutations_for(&loaded, &catalog, 6, NOW_S));
    assert_eq!(store.load().unwrap().schema("ks", "t").unwrap().column_id_bound(), 3);
}

/// `ks.t (p int PRIMARY KEY, v int, w a)` and the type `a (f int)`.
fn some_catalog() -> (Catalog, Vec<SchemaChange>) {
    let options = [("class", "SimpleStrategy"), ("replication_factor", "1")];
    let keyspace = Keyspace::new("ks", options, true).unwrap();
    let (catalog, mut changes) = Catalog::empty().create_keyspace(keyspace).unwrap();
    let fields = vec![UdtField { name: "f".to_string(), field_type: CqlType::Int }];
    let user = UserType { keyspace: "ks".to_string(), name: "a".to_string(), fields };
    let (catalog, more) = catalog.create_type(user.clone()).unwrap();
    changes.extend(more);
    let table = TableSchema::builder("ks", "t")
        .id(Uuid::from_u128(7))
        .partition_key("p", CqlType::Int)
        .column(Column {
            id: ColumnId(0),
            name: "v".to_string(),
            ty: CqlType::Int,
            kind: ColumnKind::Regular,
        })
        .regular("w", CqlType::udt(user));
    let (catalog, more) = catalog.create_table(table.build().unwrap(), TableSettings::default()).unwrap();
    changes.extend(more);
    (catalog, changes)
}

/// Stores and loads roles and levels after random changes. The writes of each change are applied completely,
/// without a crash between them.
#[test]
fn roles_and_levels_are_read_back() {
    const NAMES: [&str; 4] = ["ann", "Team 1", "it's", "default role"];
    for seed in 0..40 {
        let mut rng = Rng::new(seed);
        let (mut store, mut catalog) = (Store::default(), Catalog::empty());
        for step in 0..60 {
            let (one, other) = (name_of(&mut rng, &NAMES), name_of(&mut rng, &NAMES));
            let role = RoleChange {
                can_login: rng.chance(1, 2).then_some(true),
                is_superuser: rng.chance(1, 4).then_some(true),
                salted_hash: rng.chance(1, 2).then(|| format!("hash {step}")),
            };
            let level = LevelChange {
                timeout_ms: rng.chance(1, 2).then(|| rng.chance(2, 3).then(|| rng.below(5_000))),
                workload: rng.chance(1, 2).then_some(Workload::Interactive),
                shares: rng.chance(1, 2).then(|| 1 + rng.below(1000) as u32),
            };
            let permissions: Permissions = Permission::ALL.into_iter().filter(|_| rng.chance(1, 3)).collect();
            let resource = match rng.below(4) {
                0 => Resource::AllKeyspaces,
                1 => Resource::table("ks", "it's/t"),
                2 => Resource::Role(other.to_string()),
                _ => Resource::Functions("ks".to_string()),
            };
            let kind = rng.below(13);
            let changed = catalog.change_access(|access| match kind {
                0 | 1 => access.create_role(one, role, false),
                2 => access.alter_role(one, role),
                3 => access.drop_role(one),
                4 => access.grant_role(one, other),
                5 => access.revoke_role(one, other),
                6 => access.create_level(one, level, false, 9),
                7 => access.alter_level(one, level),
                8 => access.attach_level(one, other),
                9 | 10 => access.grant(permissions, &resource, one).map(drop),
                11 => access.revoke(permissions, &resource, one).map(drop),
                _ if rng.chance(1, 3) => access.drop_level(one, false),
                _ => access.detach_level(other),
            });
            let Ok((new, changes)) = changed else { continue };
            assert!(changes.is_empty());
            store.apply(&mutations_for(&catalog, &new, 1_000_000 + step, NOW_S));
            catalog = new;
            assert!(store.load().unwrap() == catalog, "seed {seed}, step {step}");
        }
    }
}

#[test]
fn masks_are_read_back_with_their_columns() {
    let schema = TableSchema::builder("ks", "t")
        .partition_key("k", CqlType::Text)
        .regular("v", CqlType::Text)
        .build()
        .unwrap();
    let mask = |function: &str, arguments: Vec<MaskArgument>| ColumnMask {
        function: function.to_string(),
        arguments,
    };
    let mut settings = TableSettings::default();
    let inner = vec![
        MaskArgument { ty: CqlType::Int, value: Some(vec![0, 0, 0, 1]) },
        MaskArgument { ty: CqlType::Int, value: None },
        MaskArgument { ty: CqlType::Text, value: Some(b"#".to_vec()) },
    ];
    settings.masks.insert("k".to_string(), mask("mask_inner", inner));
    settings.masks.insert("v".to_string(), mask("mask_default", vec![]));
    let empty = Catalog::empty();
    let catalog = empty.create_keyspace(Keyspace::simple("ks").unwrap()).unwrap().0;
    let masked = catalog.create_table(schema.clone(), settings.clone()).unwrap().0;
    let mut store = Store::default();
    store.apply(&mutations_for(&empty, &masked, 1_000_000, NOW_S));
    assert!(store.load().unwrap() == masked);
    settings.masks.remove("v");
    let less = masked.alter_table(schema, settings).unwrap().0;
    store.apply(&mutations_for(&masked, &less, 1_000_001, NOW_S));
    assert!(store.load().unwrap() == less);
    let dropped = less.drop_table("ks", "t").unwrap().0;
    store.apply(&mutations_for(&less, &dropped, 1_000_002, NOW_S));
    assert!(store.load().unwrap() == dropped);
}
