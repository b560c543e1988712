//! The law of materialized views: after random writes with random timestamps, a read of a view gives the rows
//! that its definition gives for the base table as it is read.

use base::rng::Rng;

use super::*;

/// A view and the SELECT that defines it; `with_v`: only rows with a value of `v`.
struct View {
    create: &'static str,
    definition: &'static str,
    read: &'static str,
    with_v: bool,
}

const VIEWS: [View; 5] = [
    View {
        create: "CREATE MATERIALIZED VIEW mv1 AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL AND v IS NOT NULL PRIMARY KEY (v, c, k)",
        definition: "SELECT k, c, v, w, m, x, writetime(w), ttl(w) FROM t",
        read: "SELECT k, c, v, w, m, x, writetime(w), ttl(w) FROM mv1",
        with_v: true,
    },
    View {
        create: "CREATE MATERIALIZED VIEW mv2 AS SELECT k, c, w FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        definition: "SELECT k, c, w, writetime(w), ttl(w) FROM t",
        read: "SELECT k, c, w, writetime(w), ttl(w) FROM mv2",
        with_v: false,
    },
    View {
        create: "CREATE MATERIALIZED VIEW mv3 AS SELECT * FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        definition: "SELECT k, c, v, w, m, x FROM t",
        read: "SELECT k, c, v, w, m, x FROM mv3",
        with_v: false,
    },
    View {
        create: "CREATE MATERIALIZED VIEW mv4 AS SELECT k, c, v, m FROM t WHERE k = 1 AND c > 0 AND v IS NOT NULL PRIMARY KEY (k, v, c)",
        definition: "SELECT k, c, v, m FROM t WHERE k = 1 AND c > 0",
        read: "SELECT k, c, v, m FROM mv4",
        with_v: true,
    },
    View {
        create: "CREATE MATERIALIZED VIEW mv5 AS SELECT k, c FROM t WHERE k IS NOT NULL AND c IS NOT NULL PRIMARY KEY (c, k)",
        definition: "SELECT k, c FROM t",
        read: "SELECT k, c FROM mv5",
        with_v: false,
    },
];

fn write(rng: &mut Rng) -> String {
    let (k, c) = (rng.below(2), rng.below(3));
    let at = rng.below(8) + 1;
    let value = |rng: &mut Rng| match rng.below(5) {
        0 => "null".to_string(),
        value => value.to_string(),
    };
    let ttl = if rng.chance(1, 3) { format!(" AND TTL {}", rng.below(30) + 1) } else { String::new() };
    let row = format!("k = {k} AND c = {c}");
    match rng.below(12) {
        0 | 1 => {
            let (v, w, x) = (value(rng), value(rng), value(rng));
            format!(
                "INSERT INTO t (k, c, v, w, x) VALUES ({k}, {c}, {v}, {w}, {x}) USING TIMESTAMP {at}{ttl}"
            )
        }
        2 => format!("INSERT INTO t (k, c, v) VALUES ({k}, {c}, {}) USING TIMESTAMP {at}{ttl}", value(rng)),
        3 | 4 => format!("UPDATE t USING TIMESTAMP {at}{ttl} SET v = {} WHERE {row}", value(rng)),
        5 => format!("UPDATE t USING TIMESTAMP {at}{ttl} SET w = {} WHERE {row}", value(rng)),
        6 => format!("UPDATE t USING TIMESTAMP {at}{ttl} SET x = {} WHERE {row}", value(rng)),
        7 => match rng.below(3) {
            0 => format!("UPDATE t USING TIMESTAMP {at}{ttl} SET m[{}] = 1 WHERE {row}", rng.below(3)),
            1 => format!("UPDATE t USING TIMESTAMP {at}{ttl} SET m = {{{}: 2}} WHERE {row}", rng.below(3)),
            _ => format!("DELETE m[{}] FROM t USING TIMESTAMP {at} WHERE {row}", rng.below(3)),
        },
        8 => format!("DELETE FROM t USING TIMESTAMP {at} WHERE {row}"),
        9 => match rng.below(3) {
            0 => format!("DELETE FROM t USING TIMESTAMP {at} WHERE k = {k}"),
            1 => format!("DELETE FROM t USING TIMESTAMP {at} WHERE k = {k} AND c > {c}"),
            _ => format!("DELETE FROM t USING TIMESTAMP {at} WHERE k = {k} AND c <= {c}"),
        },
        10 => format!("DELETE v, m, x FROM t USING TIMESTAMP {at} WHERE {row}"),
        _ => format!(
            "BEGIN BATCH USING TIMESTAMP {at} UPDATE t SET v = {} WHERE {row}; INSERT INTO t (k, c) VALUES ({k}, {c}); \
             DELETE w FROM t WHERE k = {k} AND c = {}; APPLY BATCH",
            value(rng),
            rng.below(3)
        ),
    }
}

#[test]
fn a_view_is_what_its_definition_says() {
    for seed in 0..30 {
        let mut rng = Rng::new(seed);
        let session = Session::new();
        session.all(&[
            "CREATE TABLE t (k int, c int, v int, w int, x int, m map<int, int>, PRIMARY KEY (k, c))",
        ]);
        // Some of the views are built of rows that are there already.
        let mut waiting: Vec<&View> = VIEWS.iter().collect();
        let mut history = vec![];
        for step in 0..60 {
            if !waiting.is_empty() && rng.chance(1, 4) || step == 30 {
                waiting.drain(..).for_each(|view| session.all(&[view.create]));
            }
            let text = write(&mut rng);
            session.all(&[&text]);
            history.push(text);
            if rng.chance(1, 8) {
                let seconds = rng.below(12) as i64;
                session.storage.set_now_us(session.storage.wall_us() + seconds * 1_000_000);
                history.push(format!("{seconds} s"));
            }
            for view in VIEWS.iter().filter(|_| waiting.is_empty()) {
                let mut expected = session.try_run(view.definition).unwrap();
                // The third column is `v`.
                expected.retain(|row| !view.with_v || row.split('|').nth(2) != Some(""));
                let mut found = session.try_run(view.read).unwrap();
                expected.sort();
                found.sort();
                assert_eq!(found, expected, "seed {seed}: {}\n{}", view.create, history.join("\n"));
            }
        }
    }
}
