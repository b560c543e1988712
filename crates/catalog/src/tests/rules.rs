//! Tests which changes the catalog refuses and with which messages, which events a change reports, and the
//! errors of `load`.

use std::sync::Arc;

use model::schema::TableBuilder;
use model::types::{UdtField, UserType};
use model::{
    Cell, Column, ColumnId, ColumnKind, Compression, CqlType, Mutation, PartitionKey, Purge, TableOptions,
    TableSchema,
};
use uuid::Uuid;

use crate::system::system_table;
use crate::{
    Catalog, CatalogError, ChangeKind, Internals, Keyspace, SchemaChange, TableSettings, Target,
    describe_keyspace, describe_table, describe_table_with, describe_type, load, mutations_for,
};

fn keyspace(name: &str) -> Keyspace {
    Keyspace::new(name, [("class", "SimpleStrategy"), ("replication_factor", "1")], true).unwrap()
}

fn user(catalog: &Catalog, name: &str, fields: &[(&str, &str)]) -> UserType {
    let fields = fields.iter().map(|(name, ty)| UdtField {
        name: name.to_string(),
        field_type: catalog.parse_type("ks", ty).unwrap(),
    });
    UserType { keyspace: "ks".to_string(), name: name.to_string(), fields: fields.collect() }
}

/// A table with an id made from the length of its name.
fn builder(name: &str) -> TableBuilder {
    TableSchema::builder("ks", name).id(Uuid::from_u128(name.len() as u128))
}

fn create(catalog: &Catalog, builder: TableBuilder) -> Result<Catalog, CatalogError> {
    catalog.create_table(builder.build().unwrap(), TableSettings::default()).map(|(catalog, _)| catalog)
}

/// `ks` with the types `inner (n int)`, `address (street text, inner frozen<inner>)` and the table
/// `t (p int, k text, v int, s int static, a frozen<address>, u inner, PRIMARY KEY (p, k))`.
fn catalog() -> Catalog {
    let (catalog, _) = Catalog::empty().create_keyspace(keyspace("ks")).unwrap();
    let (catalog, _) = catalog.create_type(user(&catalog, "inner", &[("n", "int")])).unwrap();
    let address = user(&catalog, "address", &[("street", "text"), ("inner", "frozen<inner>")]);
    let (catalog, _) = catalog.create_type(address).unwrap();
    let ty = |cql: &str| catalog.parse_type("ks", cql).unwrap();
    let table = builder("t")
        .partition_key("p", CqlType::Int)
        .clustering("k", CqlType::Text)
        .regular("v", CqlType::Int)
        .static_column("s", CqlType::Int)
        .regular("a", ty("frozen<address>"))
        .regular("u", ty("inner"));
    create(&catalog, table).unwrap()
}

fn alter(
    catalog: &Catalog,
    change: impl FnOnce(TableBuilder) -> TableBuilder,
) -> Result<Catalog, CatalogError> {
    let old = catalog.schema("ks", "t").unwrap();
    let new = change(old.to_builder()).build_with_ids_from(old.column_id_bound()).unwrap();
    catalog.alter_table(new, TableSettings::default()).map(|(catalog, _)| catalog)
}

#[track_caller]
fn check_refused<T>(result: Result<T, CatalogError>, expect: &str) {
    match result {
        Ok(_) => panic!("not refused: {expect}"),
        Err(error) => assert!(error.to_string().contains(expect), "{error}\nexpected: {expect}"),
    }
}

#[test]
fn keyspaces_have_rules() {
    let catalog = catalog();
    check_refused(catalog.create_keyspace(keyspace("ks")), "Cannot add existing keyspace \"ks\"");
    check_refused(catalog.alter_keyspace(keyspace("no")), "Keyspace 'no' doesn't exist");
    check_refused(catalog.drop_keyspace("no"), "Keyspace 'no' doesn't exist");
    check_refused(catalog.drop_keyspace("System_Schema"), "system_schema keyspace is not user-modifiable.");
    let mut local = keyspace("l");
    local.replication = [("class".to_string(), "LocalStrategy".to_string())].into();
    check_refused(catalog.create_keyspace(local), "LocalStrategy is reserved");
}

#[test]
fn tables_have_rules() {
    let catalog = catalog();
    let table = |name: &str| builder(name).partition_key("p", CqlType::Int);
    check_refused(create(&catalog, table("t")), "Cannot add already existing table \"t\" to keyspace \"ks\"");
    check_refused(create(&catalog, table("T")), "it is that of ks.t");
    check_refused(create(&catalog, table("../x")), "Table name must not be empty or not contain");
    check_refused(create(&catalog, table(&"t".repeat(223))), "must not be more than 222 characters long");
    let elsewhere = TableSchema::builder("no", "x").partition_key("p", CqlType::Int);
    check_refused(create(&catalog, elsewhere), "Keyspace 'no' doesn't exist");
    let system = TableSchema::builder("system", "x").partition_key("p", CqlType::Int);
    check_refused(create(&catalog, system), "system keyspace is not user-modifiable");
    let ttl = TableOptions { default_ttl_s: u32::MAX, ..TableOptions::default() };
    check_refused(create(&catalog, table("xx").options(ttl)), "default_time_to_live");
    let mut stranger = user(&catalog, "stranger", &[("n", "int")]);
    let unknown = table("xx").regular("x", CqlType::udt(stranger.clone()).freeze());
    check_refused(create(&catalog, unknown), "Unknown type ks.stranger");
    stranger.keyspace = "elsewhere".to_string();
    let foreign = table("xx").regular("x", CqlType::udt(stranger));
    check_refused(create(&catalog, foreign), "in another keyspace");
    let outdated = table("xx").regular("x", CqlType::udt(user(&catalog, "inner", &[("m", "int")])));
    check_refused(create(&catalog, outdated), "is not the one that keyspace ks has");
    let nameless = table("xx").regular("x", CqlType::LegacyTimestamp);
    check_refused(create(&catalog, nameless), "is not the one");
    let (with_list, _) = catalog.create_type(user(&catalog, "l", &[("l", "list<int>")])).unwrap();
    let non_frozen = table("xx").regular("x", with_list.parse_type("ks", "l").unwrap());
    check_refused(create(&with_list, non_frozen), "Non-frozen UDTs with nested non-frozen collections");
    let order = builder("xx").partition_key("p", CqlType::reversed(CqlType::Int));
    check_refused(create(&catalog, order), "cannot have an order");
    let worn =
        Column { id: ColumnId(1 << 20), name: "w".into(), ty: CqlType::Int, kind: ColumnKind::Regular };
    check_refused(create(&catalog, table("xx").column(worn)), "copy its data to a new table");
    check_refused(catalog.drop_table("ks", "no"), "Table 'ks.no' doesn't exist");
    check_refused(catalog.drop_table("no", "t"), "Table 'no.t' doesn't exist");
}

#[test]
fn altered_tables_have_rules() {
    let catalog = catalog();
    let refused = |change: &dyn Fn(TableBuilder) -> TableBuilder, expect: &str| {
        check_refused(alter(&catalog, change), expect);
    };
    refused(&|b| b.id(Uuid::from_u128(99)), "Cannot alter table id.");
    refused(&|b| b.partition_key("q", CqlType::Int), "Altering column types");
    refused(
        &|b| b.regular("c", CqlType::Int).drop_column("u", 5),
        "Cannot drop non-frozen column u of user type inner",
    );
    let old = catalog.schema("ks", "t").unwrap();
    let rebuilt = |columns: &dyn Fn(&Column) -> Option<Column>| {
        let mut builder = builder("t").partition_key("p", CqlType::Int).clustering("k", CqlType::Text);
        for column in old.columns().iter().filter_map(columns) {
            builder = builder.column(column);
        }
        let new = builder.build_with_ids_from(old.column_id_bound()).unwrap();
        catalog.alter_table(new, TableSettings::default())
    };
    let changed = |change: &dyn Fn(&mut Column)| {
        rebuilt(&|column| {
            let mut column = column.clone();
            if column.name == "v" {
                change(&mut column);
            }
            Some(column)
        })
    };
    check_refused(changed(&|v| v.name = "w".into()), "Cannot rename non PRIMARY KEY column v");
    check_refused(changed(&|v| v.ty = CqlType::Text), "Altering column types");
    check_refused(changed(&|v| v.kind = ColumnKind::Static), "Altering column types");
    check_refused(rebuilt(&|c| (c.name != "v").then(|| c.clone())), "column v was dropped without a record");

    let dropped = alter(&catalog, |b| b.drop_column("v", 5).drop_column("s", 5).drop_column("a", 5)).unwrap();
    let again = |name: &str, ty: CqlType| alter(&dropped, |b| b.regular(name, ty));
    check_refused(
        again("v", CqlType::Text),
        "Cannot add a column 'v' of type text, incompatible with previously dropped column 'v' of type int",
    );
    check_refused(
        again("s", CqlType::Int),
        "column 's' of kind REGULAR, incompatible with previous kind STATIC",
    );
    assert!(again("v", CqlType::Int).is_ok());
    // The record has a tuple; a type with the same fields can read the same bytes.
    assert!(again("a", dropped.parse_type("ks", "frozen<address>").unwrap()).is_ok());
    assert!(again("a", CqlType::Blob).is_ok());
    let mut used = dropped.schema("ks", "t").unwrap().to_builder();
    used = used.column(Column {
        id: ColumnId(0),
        name: "x".into(),
        ty: CqlType::Int,
        kind: ColumnKind::Regular,
    });
    let used = dropped.alter_table(
        used.build_with_ids_from(dropped.schema("ks", "t").unwrap().column_id_bound()).unwrap(),
        TableSettings::default(),
    );
    check_refused(used, "has the number 0, which another column had");
    let renamed = {
        let mut schema = TableSchema::clone(old);
        schema.clustering[0].name = "key".to_string();
        catalog.alter_table(Arc::new(schema), TableSettings::default()).unwrap().0
    };
    assert_eq!(renamed.schema("ks", "t").unwrap().clustering[0].name, "key");
}

#[test]
fn counters_stay_among_themselves() {
    let (catalog, _) = Catalog::empty().create_keyspace(keyspace("ks")).unwrap();
    let counts = builder("t").partition_key("p", CqlType::Int).regular("n", CqlType::Counter);
    let catalog = create(&catalog, counts).unwrap();
    let without = alter(&catalog, |b| b.drop_column("n", 5)).unwrap();
    check_refused(
        alter(&without, |b| b.regular("n", CqlType::Counter)),
        "Cannot mix counter and non counter columns",
    );
    check_refused(
        alter(&catalog, |b| b.drop_column("n", 5).regular("v", CqlType::Int)),
        "Cannot mix counter and non counter columns",
    );
    check_refused(
        alter(&catalog, |b| {
            b.regular("m", CqlType::Counter).drop_column("n", 5).regular("n", CqlType::Counter)
        }),
        "Cannot re-add previously dropped counter column n",
    );
}

#[test]
fn types_have_rules() {
    let catalog = catalog();
    let make = |name: &str, fields: &[(&str, &str)]| catalog.create_type(user(&catalog, name, fields));
    check_refused(make("inner", &[]), "A user type with name 'inner' already exists");
    check_refused(make("x", &[("f", "int"), ("f", "text")]), "Duplicate field name 'f' in type 'x'");
    check_refused(make("x", &[("f", "counter")]), "A user type cannot contain counters");
    check_refused(make("x", &[("f", "inner")]), "A user type cannot contain non-frozen UDTs");
    make("int", &[("f", "int")]).expect("in quotes it is a name like others");
    check_refused(make("x", &[]), "A user type needs at least one field");
    let change = |name: &str, fields: &[(&str, &str)]| catalog.alter_type(user(&catalog, name, fields));
    check_refused(change("no", &[]), "Type ks.no doesn't exist");
    check_refused(change("inner", &[("n", "text")]), "Altering field types");
    check_refused(change("inner", &[]), "Altering field types");
    check_refused(
        change("inner", &[("n", "int"), ("m", "frozen<address>")]),
        "Cannot add new field m of type frozen<address> to user type ks.inner as it would create a circular",
    );
    check_refused(
        catalog.drop_type("ks", "inner"),
        "Cannot drop user type 'ks.inner' as it is still used by user types address",
    );
    check_refused(
        catalog.drop_type("ks", "address"),
        "Cannot drop user type 'ks.address' as it is still used by tables t",
    );
    check_refused(catalog.drop_type("ks", "no"), "Type 'ks.no' doesn't exist");
    let key = catalog.parse_type("ks", "frozen<address>").unwrap();
    let keyed = create(&catalog, builder("keyed").partition_key("p", key)).unwrap();
    check_refused(
        keyed.alter_type(user(&keyed, "inner", &[("n", "int"), ("m", "int")])),
        "is being used in partition key by the following tables: ks.keyed",
    );
}

/// Each type uses the previous one twice, so the length of the expanded names doubles with every type.
#[test]
fn types_that_explode_are_refused() {
    let (mut catalog, _) = Catalog::empty().create_keyspace(keyspace("ks")).unwrap();
    let mut last = "int".to_string();
    for i in 0..40 {
        let name = format!("t{i}");
        match catalog.create_type(user(&catalog, &name, &[("a", &last), ("b", &last)])) {
            Ok((new, _)) => catalog = new,
            Err(error) => {
                assert!(error.to_string().contains("more than 65536 types"), "{error}");
                assert!((14..17).contains(&i), "type {i}");
                return;
            }
        }
        last = format!("frozen<{name}>");
    }
    panic!("not refused");
}

#[test]
fn a_changed_type_changes_and_reports_its_users() {
    let catalog = catalog();
    let wider = user(&catalog, "inner", &[("number", "int"), ("m", "frozen<list<text>>")]);
    let (new, changes) = catalog.alter_type(wider.clone()).unwrap();
    let updated = |target| SchemaChange { kind: ChangeKind::Updated, keyspace: "ks".into(), target };
    let id = Uuid::from_u128(1);
    let expect = [
        updated(Target::Type { name: "inner".into() }),
        updated(Target::Type { name: "address".into() }),
        updated(Target::Table { name: "t".into(), id }),
    ];
    assert_eq!(changes, expect);
    let (old_table, table) = (catalog.schema("ks", "t").unwrap(), new.schema("ks", "t").unwrap());
    for (name, cql) in [("a", "frozen<address>"), ("u", "inner")] {
        let column = table.column_named(name).unwrap();
        assert_eq!(column.ty, new.parse_type("ks", cql).unwrap());
        assert_eq!(column.id, old_table.column_named(name).unwrap().id);
    }
    assert_eq!(**new.user_type("ks", "inner").unwrap(), wider);
    assert_eq!(new.table_by_id(id).map(|table| &table.schema), Some(table));
    assert_eq!(old_table.column_named("u").unwrap().ty, catalog.parse_type("ks", "inner").unwrap());
    let dropped = |target| SchemaChange { kind: ChangeKind::Dropped, keyspace: "ks".into(), target };
    let (empty, changes) = new.drop_keyspace("ks").unwrap();
    let expect = [
        dropped(Target::Table { name: "t".into(), id }),
        dropped(Target::Type { name: "address".into() }),
        dropped(Target::Type { name: "inner".into() }),
        dropped(Target::Keyspace),
    ];
    assert_eq!(changes, expect);
    assert!(empty == Catalog::empty() && empty.table_by_id(id).is_none());
}

/// The result of `load` if `damage` is applied to the rows of the catalog above.
fn load_damaged(table: &str, key: &str, damage: impl Fn(&mut Mutation)) -> Result<Catalog, CatalogError> {
    let mut mutations = mutations_for(&Catalog::empty(), &catalog(), 5, 1);
    let mut found = 0;
    for mutation in mutations.iter_mut().filter(|mutation| mutation.schema.name == table) {
        let key = model::ClusteringPrefix::new(key.split('.').filter(|k| !k.is_empty()).map(str::as_bytes));
        let has_row = key.is_empty() || mutation.partition.row(&mutation.schema, &key).is_some();
        if has_row {
            damage(mutation);
            found += 1;
        }
    }
    assert!(found > 0, "{table} has a row {key}");
    load(mutations.into_iter().map(|mutation| {
        let Mutation { schema, key, mut partition } = mutation;
        partition.compact(&schema, &Purge::everything(1));
        (schema.id, key, partition)
    }))
}

fn set(mutation: &mut Mutation, key: &str, column: &str, value: &[u8]) {
    let key = model::ClusteringPrefix::new(key.split('.').filter(|k| !k.is_empty()).map(str::as_bytes));
    let schema = mutation.schema.clone();
    let column = schema.column_named(column).unwrap();
    let row = match column.kind {
        ColumnKind::Static => &mut mutation.partition.static_row,
        ColumnKind::Regular => mutation.row_mut(key),
    };
    row.set(column, Cell::live(9, value));
}

#[test]
fn damaged_system_tables_are_refused_with_the_place() {
    let check = |table: &str, key: &str, column: &str, value: &[u8], expect: &str| {
        let loaded = load_damaged(table, key, |mutation| set(mutation, key, column, value));
        let Err(CatalogError::Corrupt(text)) = loaded else { panic!("{table} {key} {column}: loaded") };
        assert!(text.contains(expect) && text.contains("from a snapshot"), "{text}\nexpected: {expect}");
    };
    check("columns", "t.v", "kind", b"odd", "system_schema.columns, row ks.t.v: column kind cannot be 'odd'");
    check("columns", "t.v", "type", b"list<", "row ks.t.v: 'list<': expected a name");
    check("columns", "t.v", "type", b"nothing", "unknown type 'nothing'");
    check("columns", "t.k", "position", &7i32.to_be_bytes(), "clustering column 7 where 0 should be");
    check("columns", "t.v", "kind", b"partition_key", "partition key column -1 where 0 should be");
    check("columns", "t.k", "kind", b"partition_key", "has the same position 0");
    check("columns", "t.k", "kind", b"\xff", "column kind:");
    check("tables", "t", "id", b"abc", "system_schema.tables, row ks.t: column id:");
    check("tables", "t", "gc_grace_seconds", &(-1i32).to_be_bytes(), "gc_grace_seconds cannot be Int(-1)");
    check("tables", "t", "bloom_filter_fp_chance", &f64::NAN.to_be_bytes(), "(got NaN)");
    check("types", "inner", "field_types", &[0; 4], "row ks.inner: 1 field names for 0 field types");
    let circular = b"\0\0\0\x01\0\0\0\x0ffrozen<address>";
    check("types", "inner", "field_types", circular, "type address is part of itself");
    let huge = i32::MAX.to_be_bytes();
    check("messina_column_ids", "v", "column_id", &huge, "row ks.t.v: column column_id is 2147483647");
    check("messina_column_ids", "", "id_bound", &huge, "at most 1048576 is possible");
    let first = 0i32.to_be_bytes();
    check("messina_column_ids", "u", "column_id", &first, "column id 0 is used twice");
    check("keyspaces", "", "replication", &[0, 0, 0, 9], "row ks: column replication:");
    let loaded = load_damaged("keyspaces", "", |mutation| mutation.key = PartitionKey::new(&b"\xff"[..]));
    check_refused(loaded, "system_schema.keyspaces: a key is not text: [ff]");
    let loaded = load_damaged("keyspaces", "", |mutation| mutation.key = PartitionKey::new("../etc"));
    check_refused(loaded, "Keyspace name must not be empty");
    let loaded = load_damaged("messina_column_ids", "", |mutation| {
        mutation.key = PartitionKey::new(&b"\0\x01a\0"[..])
    });
    check_refused(loaded, "a key of 1 parts, 2 are expected");
}

/// A directory written by another database has no `messina_column_ids`.
#[test]
fn tables_without_numbers_get_them() {
    let catalog = catalog();
    let ids = system_table("messina_column_ids").id;
    let mutations = mutations_for(&Catalog::empty(), &catalog, 5, 1).into_iter();
    let others = mutations.filter(|mutation| mutation.schema.id != ids).map(|mutation| {
        let Mutation { schema, key, mut partition } = mutation;
        partition.compact(&schema, &Purge::everything(1));
        (schema.id, key, partition)
    });
    assert!(load(others).unwrap() == catalog, "the numbers of a new table are in disk order");
}

#[test]
fn tables_are_described_as_cassandra_does() {
    let catalog = catalog();
    let ty = |cql: &str| catalog.parse_type("ks", cql).unwrap();
    let table = TableSchema::builder("ks", "Users")
        .id(Uuid::from_u128(0x5bc52802_de25_35ed_aeab_188eecebb090))
        .partition_key("p", CqlType::Int)
        .partition_key("Select", CqlType::Text)
        .clustering("k", CqlType::reversed(CqlType::TimeUuid))
        .clustering("order", CqlType::Int)
        .static_column("s", ty("list<frozen<address>>"))
        .regular("zz", CqlType::Int)
        .regular("m", ty("map<text, frozen<list<int>>>"))
        .regular("gone", ty("frozen<inner>"))
        .regular("back", CqlType::Text)
        .drop_column("gone", 1_234_567)
        .drop_column("back", 2_345_678)
        .regular("back", CqlType::Text)
        .options(TableOptions {
            comment: "it's".to_string(),
            compression: Some(Compression::lz4(4096)),
            bloom_filter_fp_chance: 0.0001,
            ..TableOptions::default()
        })
        .build()
        .unwrap();
    let (catalog, _) = catalog.create_table(table, TableSettings::default()).unwrap();
    let table = catalog.schema("ks", "Users").unwrap();
    assert_eq!(describe_table(table), include_str!("describe_users.cql").trim_end());

    let plain = TableSchema::builder("ks", "plain")
        .id(Uuid::from_u128(1))
        .partition_key("p", CqlType::Int)
        .regular("v", CqlType::Blob)
        .options(TableOptions { compression: None, ..TableOptions::default() })
        .build()
        .unwrap();
    let mut settings = TableSettings::default();
    settings.extensions.insert("e".to_string(), vec![0, 255]);
    assert_eq!(
        describe_table_with(&plain, &settings, Internals::Shown),
        include_str!("describe_plain.cql").trim_end()
    );
}

#[test]
fn keyspaces_and_types_are_described_as_cassandra_does() {
    let keyspace = Keyspace::new("Ks", [("class", "NetworkTopologyStrategy"), ("dc1", "3")], false).unwrap();
    assert_eq!(
        describe_keyspace(&keyspace),
        "CREATE KEYSPACE \"Ks\" WITH replication = {'class': 'NetworkTopologyStrategy', 'dc1': '3'}  AND \
         durable_writes = false;"
    );
    assert_eq!(
        describe_type(catalog().user_type("ks", "address").unwrap()),
        "CREATE TYPE ks.address (\n    street text,\n    inner frozen<inner>\n);"
    );
}
