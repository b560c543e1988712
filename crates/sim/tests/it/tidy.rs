//! Rules that the compiler does not check: where bans may be lifted, the number of test binaries, the numbers
//! of decisions, the pages of formats.

use std::collections::BTreeSet;

use crate::rooms::without_tests;
use crate::{crates, files_below, names_in, root, section, table, text};

/// Places where the bans of clippy.toml may be lifted, each with the reason.
const DOORS: &[(&str, &str)] = &[
    ("crates/runtime/src/real/", "the real back end is where clocks, randomness and threads come in"),
    ("crates/base/src/hash.rs", "the alias that everybody uses instead of std's maps"),
    ("crates/sim/src/main.rs", "fresh seeds differ from run to run, and are printed"),
    ("crates/sim/src/bin/ledger/", "a host process with threads and moments of its own is what is tested"),
    ("crates/protocol/src/tests/cost.rs", "prints how long things take"),
    ("crates/syntax/src/tests/speed.rs", "prints how long things take"),
    ("crates/messina/tests/it/", "processes and clients outside live in the real world's time"),
    (
        "crates/shell/src/",
        "the shell reads the environment for its user, and its tests have places and servers of their own",
    ),
    ("crates/bench/src/", "benchmarks measure the real machine in its time"),
    ("crates/backup/src/clock.rs", "backups run on threads of their own, in the real world's time"),
    ("crates/stress/src/clock.rs", "a load generator measures latencies in the real world's time"),
    ("crates/server/src/config/", "the configuration is where the environment comes in"),
    ("crates/server/src/start_time.rs", "uptime and generation are of the real world"),
    ("crates/server/src/logging.rs", "a log line has the time of the real world"),
    ("crates/messina/src/", "the programs read arguments, environment and clock for their user"),
];

#[test]
fn the_bans_are_lifted_only_at_the_doors() {
    // In two pieces, so that this file does not match itself.
    let ban = concat!("clippy::", "disallowed_");
    let mut wrong = vec![];
    let mut lifted = 0;
    for file in files_below("crates", ".rs") {
        for (number, line) in text(&file).lines().enumerate().filter(|(_, line)| line.contains(ban)) {
            lifted += 1;
            if !DOORS.iter().any(|(door, _)| file.starts_with(door)) {
                wrong.push(format!("{file}:{}: {}", number + 1, line.trim()));
            } else if !line.contains("reason") {
                wrong.push(format!("{file}:{}: say why: reason = \"…\"", number + 1));
            }
        }
    }
    assert!(
        wrong.is_empty(),
        "a ban of clippy.toml is lifted; take what you need from a runtime::Shard, or add a door with its reason to DOORS:\n{}",
        wrong.join("\n")
    );
    assert!(lifted > 0, "the doors themselves were not found");
}

/// Files that call libc, each with the call that `rustix` does not have. All other system calls go through
/// `rustix` or `io-uring`, whose callers need no unsafe code.
const LIBC: &[(&str, &str)] = &[
    ("crates/runtime/src/real/aio.rs", "io_setup, io_submit, io_getevents, io_destroy"),
    ("crates/runtime/src/real/calls.rs", "getrusage, for the voluntary context switches of a thread"),
    ("crates/runtime/src/real/helpers.rs", "sched_getattr and sched_setattr, for a thread's time slice"),
    ("crates/runtime/tests/it/real.rs", "prctl with a seccomp filter"),
    ("crates/server/src/production.rs", "adjtimex, for the state of the clock"),
    ("crates/server/src/serve.rs", "signal with SIG_IGN: tokio has handlers, and cannot ignore"),
    ("crates/shell/src/terminal.rs", "sigaction without SA_RESTART: a Ctrl-C ends a read"),
];

#[test]
fn libc_is_called_only_where_rustix_lacks_the_call() {
    // In two pieces, so that this file does not match itself.
    let name = concat!("lib", "c::");
    let files = files_below("crates", ".rs").into_iter().filter(|file| text(file).contains(name));
    let calling: BTreeSet<String> = files.collect();
    let listed: BTreeSet<String> = LIBC.iter().map(|(file, _)| file.to_string()).collect();
    assert_eq!(
        calling, listed,
        "the files that call libc, and those of LIBC; take rustix if it has the call"
    );
}

/// Code that runs on a shard's thread, where a call that blocks stops all tasks of the shard. The rest of the
/// server runs on the main thread.
const SHARD_CODE: &[&str] = &[
    "crates/base/src/",
    "crates/model/src/",
    "crates/reader/src/",
    "crates/iosched/src/",
    "crates/reports/src/",
    "crates/compaction/src/",
    "crates/catalog/src/",
    "crates/sstable/src/",
    "crates/protocol/src/",
    "crates/syntax/src/",
    "crates/udf/src/",
    "crates/cql/src/",
    "crates/engine/src/",
    "crates/runtime/src/shard/",
    "crates/server/src/cql_server/",
];

/// Files of these that wait on threads other than a shard's, each with the reason.
const OTHER_THREADS: &[(&str, &str)] = &[
    ("crates/runtime/src/shard/reply.rs", "threads outside wait for the answer of a shard"),
    ("crates/server/src/cql_server/passwords.rs", "bcrypt runs on a thread of its own"),
];

/// Names of the standard library that block the thread.
const BLOCKING: &[&str] =
    &["std::fs", "std::thread::", "std::net::Tcp", "std::net::Udp", "std::process", "std::io::stdin"];

/// The lines of a source, without tests, that name something blocking.
fn blocking_lines(source: &str) -> Vec<String> {
    let source = without_tests(source);
    let is_blocking = |line: &&str| BLOCKING.iter().any(|name| line.contains(name));
    source.lines().filter(is_blocking).map(|line| line.trim().to_string()).collect()
}

#[test]
fn shard_code_calls_nothing_that_blocks() {
    let is_test = |file: &str| file.contains("/tests/") || file.ends_with("/tests.rs");
    let is_other = |file: &str| OTHER_THREADS.iter().any(|(other, _)| *other == file);
    let mut wrong = vec![];
    let mut count = 0;
    for file in SHARD_CODE.iter().flat_map(|dir| files_below(dir, ".rs")) {
        if is_test(&file) {
            continue;
        }
        count += 1;
        let lines = blocking_lines(&text(&file));
        match is_other(&file) {
            true => assert!(!lines.is_empty(), "{file} blocks no thread: remove it from OTHER_THREADS"),
            false => wrong.extend(lines.into_iter().map(|line| format!("{file}: {line}"))),
        }
    }
    assert!(
        wrong.is_empty(),
        "code of a shard must not block its thread; use runtime::Files, or do it on the main thread:\n{}",
        wrong.join("\n")
    );
    assert!(count > 300, "only {count} files were read");
    assert_eq!(blocking_lines("// std::fs\nlet a = std::fs::read(b);\n"), ["let a = std::fs::read(b);"]);
    assert!(blocking_lines("#[cfg(test)]\nmod tests {\n    use std::fs;\n}\n").is_empty());
}

#[test]
fn every_crate_has_the_lints_of_the_workspace() {
    for name in crates() {
        let manifest = text(&format!("crates/{name}/Cargo.toml"));
        let lints = manifest.lines().skip_while(|line| line.trim() != "[lints]").nth(1).unwrap_or_default();
        assert!(
            lints.trim() == "workspace = true",
            "crates/{name}/Cargo.toml: add [lints] workspace = true, or the bans do not hold there"
        );
    }
}

#[test]
fn a_crate_has_one_test_binary_at_most() {
    for name in crates() {
        let dir = root().join("crates").join(&name).join("tests");
        let is_binary = |entry: &String| entry.ends_with(".rs") || dir.join(entry).join("main.rs").exists();
        let binaries: Vec<String> = names_in(&dir).into_iter().filter(is_binary).collect();
        assert!(
            binaries.len() <= 1,
            "crates/{name}/tests has {binaries:?}: each is another link of the whole crate; make them modules of tests/it/main.rs"
        );
    }
}

/// The error of a decision's page.
fn check_decision(file: &str, content: &str) -> Result<(), String> {
    let number = file.split('-').next().unwrap_or_default();
    if !content.starts_with(&format!("# {number}  ")) {
        return Err(format!("docs/adr/{file}: the first line is `# {number}  <what was decided>`"));
    }
    for part in
        ["Date, state:", "**Question:**", "**Chosen:**", "**Instead of:**", "**Costs:**", "**We will see:**"]
    {
        if !content.contains(part) {
            return Err(format!("docs/adr/{file}: {part} is missing"));
        }
    }
    Ok(())
}

/// The numbers of the files are 1, 2, 3, …
fn check_numbers(files: &[String]) -> Result<(), String> {
    for (index, file) in files.iter().enumerate() {
        if !file.starts_with(&format!("{:04}-", index + 1)) {
            return Err(format!("docs/adr/{file}: number {:04} comes here", index + 1));
        }
    }
    Ok(())
}

#[test]
fn decisions_are_numbered_without_gaps_and_complete() {
    let files = names_in(&root().join("docs/adr"));
    assert!(files.len() >= 8, "decisions are not removed, only followed by later ones: {files:?}");
    check_numbers(&files).unwrap();
    for file in &files {
        check_decision(file, &text(&format!("docs/adr/{file}"))).unwrap();
    }
    let twice = ["0001-a.md", "0002-b.md", "0002-c.md"].map(str::to_string);
    assert!(check_numbers(&twice).is_err() && check_numbers(&twice[..2]).is_ok());
    assert!(check_decision("0003-c.md", "# 0003  c\nDate, state: today\n").is_err());
}

#[test]
fn every_format_has_a_module_and_a_page() {
    let page = text("ARCHITECTURE.md");
    let mut modules = BTreeSet::new();
    let mut pages = BTreeSet::new();
    for row in table(section(&page, "## Formats")) {
        let [format, module, page] = &row[..] else { panic!("a format has a module and a page: {row:?}") };
        let (module, page) = (module.trim_matches('`'), page.trim_matches('`'));
        assert!(root().join(module).exists(), "{format}: there is no {module}");
        let prose = text(page);
        assert!(prose.contains(&format!("`{module}`")), "{page} does not say that {module} knows the bytes");
        let has_example = prose.contains("```hex\n") || prose.contains("```text\n");
        assert!(has_example, "{page} has no worked example");
        modules.insert(module.to_string());
        pages.insert(page.to_string());
    }
    let on_disk: BTreeSet<String> = files_below("docs/formats", ".md").into_iter().collect();
    assert_eq!(
        on_disk, pages,
        "the pages in docs/formats, and those in the table of formats in ARCHITECTURE.md"
    );

    let begins = |file: &str, with: &str| {
        text(file).lines().any(|line| line.trim_start_matches("pub ").starts_with(with))
    };
    for file in files_below("crates", ".rs").iter().filter(|file| begins(file, "const MAGIC:")) {
        assert!(
            modules.contains(file) || file.contains("/tests/"),
            "{file} has a MAGIC and so a format of ours: write docs/formats/<name>.md and add both to the table in ARCHITECTURE.md"
        );
    }
    let mut named = 0;
    for file in files_below("crates", ".rs") {
        let content = text(&file);
        for rest in content.split("docs/formats/").skip(1) {
            let name: String =
                rest.chars().take_while(|c| c.is_ascii_alphanumeric() || "-_.".contains(*c)).collect();
            if let Some(name) = name.strip_suffix(".md").or(name.strip_suffix(".md.")) {
                named += 1;
                assert!(
                    on_disk.contains(&format!("docs/formats/{name}.md")),
                    "{file} names docs/formats/{name}.md; write it"
                );
            }
        }
    }
    assert!(named > 2, "only {named} mentions of format pages were found");
}

#[test]
fn texts_speak_of_the_project_alone() {
    let here = ["/home/", "/root/", concat!("/wor", "k/")];
    let files = [".md", ".rs", ".sh", ".toml", ".py"].into_iter().flat_map(|end| {
        let dirs =
            ["crates", "docs", "tests", "bench"].into_iter().flat_map(move |dir| files_below(dir, end));
        dirs.chain(names_in(&root()).into_iter().filter(move |name| name.ends_with(end)))
    });
    for file in files.filter(|file| !file.ends_with("it/tidy.rs")) {
        for (number, line) in text(&file).lines().enumerate() {
            let found = here.iter().find(|path| line.contains(*path));
            assert!(found.is_none(), "{file}:{}: a path of one machine: {}", number + 1, line.trim());
        }
    }
}

#[test]
fn log_lines_have_the_loggers_of_the_table() {
    let mut used = BTreeSet::new();
    for file in files_below("crates", ".rs") {
        // Their tests make up targets.
        if file.ends_with("/log_capture.rs") || file.ends_with("it/tidy.rs") {
            continue;
        }
        let code = text(&file);
        for rest in code.split("target: \"").skip(1) {
            let target = rest.split('"').next().unwrap_or_default();
            assert!(
                server::log_levels::LOGGERS.contains(&target),
                "{file}: {target} is no logger; take another, or add it to crates/server/src/log_levels.rs"
            );
            used.insert(target.to_string());
        }
        for name in ["error!(", "warn!(", "info!(", "debug!(", "trace!("] {
            for (at, _) in code.match_indices(name) {
                let is_other = code[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_');
                let has_target = code[at + name.len()..].trim_start().starts_with("target: ");
                let line = code[..at].lines().count();
                assert!(is_other || has_target, "{file}:{line}: a log line names its logger: target: \"…\"");
            }
        }
    }
    assert!(used.iter().eq(server::log_levels::LOGGERS), "loggers without a line: {used:?}");
}

/// Width of code and comments: `max_width` of rustfmt.toml. rustfmt does not wrap comments.
const WIDTH: usize = 110;

/// Whether a line of code is a comment wider than [`WIDTH`]. Rows of tables, links and lines of an example
/// cannot be wrapped.
fn is_too_wide(line: &str) -> bool {
    let text = line.trim_start();
    let Some(text) = text.strip_prefix("//") else { return false };
    let text = text.trim_start_matches(['/', '!']).trim_start();
    let is_one_word = text.split_whitespace().filter(|word| word.len() > 2).count() < 2;
    line.chars().count() > WIDTH && !text.starts_with('|') && !is_one_word
}

#[test]
fn comments_are_as_wide_as_code_at_most() {
    assert!(text("rustfmt.toml").lines().any(|line| line == format!("max_width = {WIDTH}")));
    let long = "a ".repeat(WIDTH / 2) + "word and another";
    assert!(is_too_wide(&format!("    /// {long}")) && is_too_wide(&format!("//! - {long}")));
    assert!(!is_too_wide(&long) && !is_too_wide(&format!("/// | {long} |")));
    assert!(!is_too_wide(&format!("//! <https://{}>", "a".repeat(WIDTH))));
    let files = ["crates", "fuzz"].into_iter().flat_map(|dir| files_below(dir, ".rs"));
    let mut wide = vec![];
    for file in files {
        let of_file = text(&file);
        let lines = of_file.lines().enumerate().filter(|(_, line)| is_too_wide(line));
        wide.extend(lines.map(|(number, _)| format!("{file}:{}", number + 1)));
    }
    assert!(wide.is_empty(), "wrap these comments at {WIDTH} columns:\n{}", wide.join("\n"));
}

/// The names that the code gives to `broken::is`.
fn broken_names(code: &str) -> Vec<String> {
    let calls = code.split(concat!("broken::", "is(\"")).skip(1);
    calls.filter_map(|rest| Some(rest.split_once('"')?.0.to_string())).collect()
}

#[test]
fn each_promise_is_broken_somewhere_and_each_place_has_a_promise() {
    let simulation: String = files_below("crates/sim/src", ".rs").iter().map(|file| text(file)).collect();
    let mut named = BTreeSet::new();
    for file in files_below("crates", ".rs").iter().filter(|file| !file.starts_with("crates/base/")) {
        for name in broken_names(&text(file)) {
            assert!(
                simulation.contains(&format!("\"{name}\"")),
                "{file} breaks {name}, of which the simulation knows nothing: add it to PROMISES"
            );
            named.insert(name);
        }
    }
    let engine = sim::promises::PROMISES.iter().map(|promise| promise.name);
    let server = sim::serving::promises::PROMISES.iter().map(|promise| promise.name);
    for name in engine.chain(server) {
        assert!(named.contains(name), "nothing asks broken::is for {name}: remove it from PROMISES");
    }
    assert_eq!(broken_names(concat!("if broken::", "is(\"a\") || broken::", "is(\"b\") {")), ["a", "b"]);
}
