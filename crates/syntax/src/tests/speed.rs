//! Measures the time to parse a statement. Prints times and checks nothing: `cargo test --release -p syntax
//! speed -- --nocapture --ignored`.

use super::corpus;
use crate::parse;

/// Typical statements of applications.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM ks.t WHERE k = 'user-12345'",
    "INSERT INTO ks.t (k, c, v) VALUES ('user-12345', 17, 0xcafebabe) USING TTL 3600",
    "UPDATE ks.t USING TIMESTAMP ? SET a = ?, m['key'] = ?, n = n + 1 WHERE k = ? AND c = ?",
    "SELECT a, b, writetime(c), m['x'] FROM ks.t WHERE k = ? AND (c, d) > (1, 2) ORDER BY c DESC LIMIT 100",
];

#[test]
#[ignore = "prints times, checks nothing"]
#[allow(clippy::disallowed_methods, reason = "a measurement")]
fn nanoseconds_per_statement() {
    const TIMES: u32 = 200_000;
    let measure = |what: &str, times: u32, run: &dyn Fn()| {
        let started = std::time::Instant::now();
        (0..times).for_each(|_| run());
        println!("{:8.0} ns  {what}", started.elapsed().as_nanos() as f64 / f64::from(times));
    };
    for text in STATEMENTS {
        measure(text, TIMES, &|| assert!(std::hint::black_box(parse(text)).is_ok()));
    }
    measure("(all of the corpus)", 500, &|| corpus().for_each(|text| assert!(parse(text).is_ok())));
    let long = format!("INSERT INTO t (a) VALUES ([{}1])", "12345, ".repeat(1 << 20));
    measure(&format!("(a list of {} bytes)", long.len()), 3, &|| assert!(parse(&long).is_ok()));
}
