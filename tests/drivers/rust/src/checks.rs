//! The checks, each with tables of its own in one keyspace.

use crate::{Verdict, connect};
use bigdecimal::BigDecimal;
use futures::future::{BoxFuture, FutureExt, try_join_all};
use futures::TryStreamExt;
use num_bigint::BigInt;
use scylla::client::session::Session;
use scylla::errors::{DbError, ExecutionError, RequestAttemptError};
use scylla::response::{PagingState, PagingStateResponse};
use scylla::statement::batch::{Batch, BatchType};
use scylla::statement::unprepared::Statement;
use scylla::value::{Counter, CqlDate, CqlDuration, CqlTime, CqlTimestamp, CqlTimeuuid, MaybeUnset, Unset};
use scylla::{DeserializeValue, SerializeRow, SerializeValue};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::net::IpAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

struct Suite {
    session: Session,
    keyspace: String,
    shards: Option<usize>,
}

type Check = for<'a> fn(&'a Suite) -> BoxFuture<'a, Verdict>;

pub async fn run(contact: &str, compression: &str, shards: Option<usize>) -> ExitCode {
    let keyspace = format!("rust_{compression}");
    let suite = match open(contact, compression, &keyspace, shards).await {
        Ok(suite) => suite,
        Err(error) => {
            println!("FAIL rust {compression} connect: {error}\n0 passed, 1 failed");
            return ExitCode::FAILURE;
        }
    };
    let all: [(&str, Check); 12] = [
        ("types", |suite| types(suite).boxed()),
        ("user types and nested collections", |suite| user_types(suite).boxed()),
        ("schema metadata", |suite| metadata(suite).boxed()),
        ("null and unset values", |suite| values(suite).boxed()),
        ("paging", |suite| paging(suite).boxed()),
        ("batches", |suite| batches(suite).boxed()),
        ("counters", |suite| counters(suite).boxed()),
        ("lightweight transactions", |suite| transactions(suite).boxed()),
        ("requests at once", |suite| concurrency(suite).boxed()),
        ("shards", |suite| sharding(suite).boxed()),
        ("errors", |suite| errors(suite).boxed()),
        ("end", |suite| async { ddl(suite, &format!("DROP KEYSPACE {}", suite.keyspace)).await }.boxed()),
    ];
    let (mut passed, mut failed) = (0, 0);
    for (name, check) in all {
        match check(&suite).await {
            Ok(()) => {
                passed += 1;
                println!("PASS rust {compression} {name}");
            }
            Err(error) => {
                failed += 1;
                println!("FAIL rust {compression} {name}: {error}");
            }
        }
    }
    println!("{passed} passed, {failed} failed");
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

async fn open(contact: &str, compression: &str, keyspace: &str, shards: Option<usize>) -> Result<Suite, Box<dyn std::error::Error + Send + Sync>> {
    let session = connect(contact, compression).await?;
    let suite = Suite { session, keyspace: keyspace.to_owned(), shards };
    ddl(&suite, &format!("DROP KEYSPACE IF EXISTS {keyspace}")).await?;
    ddl(&suite, &format!("CREATE KEYSPACE {keyspace} WITH replication = {{'class': 'SimpleStrategy', 'replication_factor': 1}}")).await?;
    suite.session.use_keyspace(keyspace, false).await?;
    Ok(suite)
}

async fn ddl(suite: &Suite, query: &str) -> Verdict {
    let mut statement = Statement::new(query);
    statement.set_request_timeout(Some(Duration::from_secs(60)));
    suite.session.query_unpaged(statement, ()).await.map_err(|error| format!("{query}: {error}"))?;
    Ok(())
}

fn equal<T: PartialEq + Debug>(what: &str, expected: T, got: T) -> Verdict {
    if expected == got { Ok(()) } else { Err(format!("{what}: expected {expected:?}, got {got:?}").into()) }
}

/// Writes values of a type and reads them back, and null.
async fn round_trip<T>(suite: &Suite, cql_type: &str, values: Vec<T>) -> Verdict
where
    T: scylla::serialize::value::SerializeValue + for<'f, 'm> scylla::deserialize::value::DeserializeValue<'f, 'm> + PartialEq + Debug + Clone,
{
    let table: String = format!("type_{cql_type}").chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
    ddl(suite, &format!("CREATE TABLE {table} (id int PRIMARY KEY, v {cql_type})")).await?;
    let insert = suite.session.prepare(format!("INSERT INTO {table} (id, v) VALUES (?, ?)")).await?;
    let select = suite.session.prepare(format!("SELECT v FROM {table} WHERE id = ?")).await?;
    for (id, value) in values.into_iter().map(Some).chain([None]).enumerate() {
        suite.session.execute_unpaged(&insert, (id as i32, &value)).await.map_err(|error| format!("{cql_type}: {error}"))?;
        let got = suite.session.execute_unpaged(&select, (id as i32,)).await?.into_rows_result()?;
        let (got,) = got.single_row::<(Option<T>,)>().map_err(|error| format!("{cql_type}: {error}"))?;
        equal(cql_type, value, got)?;
    }
    Ok(())
}

async fn types(suite: &Suite) -> Verdict {
    round_trip(suite, "ascii", vec![String::new(), "plain".into()]).await?;
    round_trip(suite, "bigint", vec![0, i64::MIN, i64::MAX]).await?;
    round_trip(suite, "blob", vec![vec![], vec![0u8, 255, 7], vec![3; 300_000]]).await?;
    round_trip(suite, "boolean", vec![true, false]).await?;
    round_trip(suite, "date", vec![CqlDate(1 << 31), CqlDate(0), CqlDate((1 << 31) + 19675)]).await?;
    round_trip(suite, "decimal", vec!["-1.50".parse::<BigDecimal>()?, "123456789012345678901234567890.5".parse()?]).await?;
    round_trip(suite, "double", vec![0.0, -1e300, f64::INFINITY]).await?;
    round_trip(suite, "duration", vec![CqlDuration { months: 14, days: 3, nanoseconds: 4_000_000_000 }, CqlDuration { months: -1, days: -2, nanoseconds: -3 }]).await?;
    round_trip(suite, "float", vec![1.5f32, -1.25e30]).await?;
    round_trip(suite, "inet", vec!["127.0.0.1".parse::<IpAddr>()?, "2001:db8::1".parse()?]).await?;
    round_trip(suite, "int", vec![0, i32::MIN, i32::MAX]).await?;
    round_trip(suite, "smallint", vec![0, i16::MIN, i16::MAX]).await?;
    round_trip(suite, "text", vec![String::new(), "naïve 日本語 😀".into(), "x".repeat(200_000)]).await?;
    round_trip(suite, "time", vec![CqlTime(0), CqlTime(86_399_999_999_999)]).await?;
    round_trip(suite, "timestamp", vec![CqlTimestamp(0), CqlTimestamp(1_700_000_000_123), CqlTimestamp(-2_174_759_694_000)]).await?;
    round_trip(suite, "timeuuid", vec![CqlTimeuuid::from(Uuid::parse_str("a5ac0bd0-7f41-11ee-b962-0242ac120002")?)]).await?;
    round_trip(suite, "tinyint", vec![0, i8::MIN, i8::MAX]).await?;
    round_trip(suite, "uuid", vec![Uuid::nil(), Uuid::max()]).await?;
    round_trip(suite, "varint", vec![BigInt::from(0), BigInt::from(-1) * BigInt::from(u64::MAX), BigInt::from(255)]).await?;
    round_trip(suite, "list<int>", vec![vec![3, 1, 2]]).await?;
    round_trip(suite, "set<text>", vec![BTreeSet::from(["a".to_owned(), "b".into()])]).await?;
    round_trip(suite, "map<text, bigint>", vec![BTreeMap::from([("a".to_owned(), 1i64), ("b".into(), -2)])]).await?;
    round_trip(suite, "tuple<int, text>", vec![(Some(1), Some("a".to_owned())), (None, None)]).await
}

#[derive(Clone, Debug, PartialEq, SerializeValue, DeserializeValue)]
struct Street {
    name: Option<String>,
    number: i32,
}

async fn user_types(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TYPE street (name text, number int)").await?;
    round_trip(suite, "frozen<street>", vec![Street { name: Some("Via".into()), number: 7 }, Street { name: None, number: 8 }]).await?;
    round_trip(suite, "street", vec![Street { name: Some("Via".into()), number: 9 }]).await?;
    let deep = vec![BTreeMap::from([("a".to_owned(), BTreeSet::from([1, 2]))]), BTreeMap::new()];
    round_trip(suite, "list<frozen<map<text, frozen<set<int>>>>>", vec![deep]).await
}

async fn metadata(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE described (a int, \"B\" text, c timeuuid, s int STATIC, v map<text, int>, PRIMARY KEY ((a, \"B\"), c)) WITH CLUSTERING ORDER BY (c DESC)").await?;
    suite.session.refresh_metadata().await?;
    let state = suite.session.get_cluster_state();
    let keyspace = state.get_keyspace(&suite.keyspace).ok_or("no such keyspace")?;
    let table = keyspace.tables.get("described").ok_or("no such table")?;
    equal("partition key", vec!["a".to_owned(), "B".into()], table.partition_key.clone())?;
    equal("clustering key", vec!["c".to_owned()], table.clustering_key.clone())?;
    equal("columns", 5, table.columns.len())?;
    equal("user types", true, keyspace.user_defined_types.contains_key("street"))
}

async fn values(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE vals (id int PRIMARY KEY, a text, b int)").await?;
    let insert = suite.session.prepare("INSERT INTO vals (id, a, b) VALUES (:id, :a, :b)").await?;
    suite.session.execute_unpaged(&insert, Named { b: 2, a: "x", id: 1 }).await?;
    suite.session.execute_unpaged(&insert, (1, None::<&str>, MaybeUnset::<i32>::Unset)).await?;
    suite.session.execute_unpaged(&insert, (1, Unset, Unset)).await?;
    let got = suite.session.query_unpaged("SELECT a, b FROM vals WHERE id = 1", ()).await?.into_rows_result()?;
    equal("row", (None, Some(2)), got.single_row::<(Option<String>, Option<i32>)>()?)
}

/// Values by name, for a statement with named markers.
#[derive(SerializeRow)]
struct Named {
    b: i32,
    a: &'static str,
    id: i32,
}

async fn paging(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE pages (k int, c int, v text, PRIMARY KEY (k, c))").await?;
    let insert = suite.session.prepare("INSERT INTO pages (k, c, v) VALUES (?, ?, ?)").await?;
    for c in 0..250 {
        suite.session.execute_unpaged(&insert, (1, c, format!("v{c}"))).await?;
    }
    for (order, expected) in [("ASC", (0..250).collect::<Vec<i32>>()), ("DESC", (0..250).rev().collect())] {
        for size in [3, 100, 249, 250, 251] {
            let mut select = suite.session.prepare(format!("SELECT c FROM pages WHERE k = ? ORDER BY c {order}")).await?;
            select.set_page_size(size);
            let rows: Vec<(i32,)> = suite.session.execute_iter(select, (1,)).await?.rows_stream::<(i32,)>()?.try_collect().await?;
            equal(&format!("{order}, page of {size}"), expected.clone(), rows.into_iter().map(|(c,)| c).collect())?;
        }
    }
    let mut select = suite.session.prepare("SELECT c FROM pages WHERE k = 1").await?;
    select.set_page_size(40);
    let (first, state) = suite.session.execute_single_page(&select, (), PagingState::start()).await?;
    equal("first page", 40, first.into_rows_result()?.rows_num())?;
    let PagingStateResponse::HasMorePages { state } = state else { return Err("no more pages after the first".into()) };
    let (second, _) = suite.session.execute_single_page(&select, (), state).await?;
    equal("first row of the second page", (40,), second.into_rows_result()?.first_row::<(i32,)>()?)
}

async fn batches(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE batched (k int, c int, PRIMARY KEY (k, c))").await?;
    let insert = suite.session.prepare("INSERT INTO batched (k, c) VALUES (?, ?)").await?;
    for (k, kind) in [(0, BatchType::Logged), (1, BatchType::Unlogged)] {
        let mut batch = Batch::new(kind);
        let mut values = Vec::new();
        for c in 0..10 {
            batch.append_statement(insert.clone());
            values.push((k, c));
        }
        batch.append_statement("INSERT INTO batched (k, c) VALUES (?, ?)");
        values.push((k, 100));
        suite.session.batch(&batch, values).await?;
    }
    let got = suite.session.query_unpaged("SELECT COUNT(*) FROM batched", ()).await?.into_rows_result()?;
    equal("rows", (22,), got.single_row::<(i64,)>()?)
}

async fn counters(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE counts (k int PRIMARY KEY, n counter)").await?;
    let add = suite.session.prepare("UPDATE counts SET n = n + ? WHERE k = 1").await?;
    for each in 1..=10 {
        suite.session.execute_unpaged(&add, (Counter(each),)).await?;
    }
    let got = suite.session.query_unpaged("SELECT n FROM counts WHERE k = 1", ()).await?.into_rows_result()?;
    equal("count", (Counter(55),), got.single_row::<(Counter,)>()?)
}

async fn transactions(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE lwt (k int PRIMARY KEY, v text)").await?;
    let insert = suite.session.prepare("INSERT INTO lwt (k, v) VALUES (?, ?) IF NOT EXISTS").await?;
    for (value, expected) in [("a", true), ("b", false)] {
        let got = suite.session.execute_unpaged(&insert, (1, value)).await?.into_rows_result()?;
        let applied = got.column_specs().iter().position(|column| column.name() == "[applied]");
        equal("place of [applied]", Some(0), applied)?;
        let row = got.single_row::<scylla::value::Row>()?;
        equal("[applied]", Some(expected), row.columns[0].as_ref().and_then(|value| value.as_boolean()))?;
    }
    let update = suite.session.prepare("UPDATE lwt SET v = ? WHERE k = ? IF v = ?").await?;
    let got = suite.session.execute_unpaged(&update, ("c", 1, "a")).await?.into_rows_result()?;
    let row = got.single_row::<scylla::value::Row>()?;
    equal("update", Some(true), row.columns[0].as_ref().and_then(|value| value.as_boolean()))
}

async fn concurrency(suite: &Suite) -> Verdict {
    ddl(suite, "CREATE TABLE many (id int PRIMARY KEY, v text)").await?;
    let insert = Arc::new(suite.session.prepare("INSERT INTO many (id, v) VALUES (?, ?)").await?);
    let select = Arc::new(suite.session.prepare("SELECT v FROM many WHERE id = ?").await?);
    let tasks = (0..1000).map(|id| {
        let (insert, select) = (insert.clone(), select.clone());
        async move {
            suite.session.execute_unpaged(&insert, (id, format!("v{id}"))).await?;
            let got = suite.session.execute_unpaged(&select, (id,)).await?.into_rows_result()?;
            equal("value", (format!("v{id}"),), got.single_row::<(String,)>()?)
        }
    });
    try_join_all(tasks).await.map(|_| ())
}

async fn sharding(suite: &Suite) -> Verdict {
    let state = suite.session.get_cluster_state();
    let node = state.get_nodes_info().first().ok_or("no node")?;
    match suite.shards {
        None => Ok(()),
        Some(shards) => {
            let sharder = node.sharder().ok_or("the driver found no shards in SUPPORTED")?;
            equal("shards", shards, sharder.nr_shards.get() as usize)?;
            equal("connected", true, node.is_connected())
        }
    }
}

async fn errors(suite: &Suite) -> Verdict {
    type Right = fn(&DbError) -> bool;
    let cases: [(&str, Right); 6] = [
        ("SELEC * FROM x", |error| matches!(error, DbError::SyntaxError)),
        ("SELECT * FROM no_such_table", |error| matches!(error, DbError::Invalid)),
        ("SELECT nothing FROM many", |error| matches!(error, DbError::Invalid)),
        ("SELECT * FROM many WHERE v = 'x'", |error| matches!(error, DbError::Invalid)),
        ("CREATE TABLE many (id int PRIMARY KEY)", |error| matches!(error, DbError::AlreadyExists { table, .. } if table == "many")),
        ("CREATE KEYSPACE bad WITH replication = {'class': 'NoSuchStrategy', 'replication_factor': 1}", |error| matches!(error, DbError::ConfigError)),
    ];
    for (query, right) in cases {
        match suite.session.query_unpaged(query, ()).await {
            Err(ExecutionError::LastAttemptError(RequestAttemptError::DbError(error, _))) if right(&error) => {}
            Err(error) => return Err(format!("{query}: the wrong error: {error:?}").into()),
            Ok(_) => return Err(format!("{query} did not fail").into()),
        }
    }
    Ok(())
}
