//! All fuzz targets, by name. Each is a function that accepts any bytes and must not panic.
//!
//! `fuzz/run.sh` runs each target with libFuzzer and AddressSanitizer, in a separate program
//! (`fuzz/fuzz_targets/`). libFuzzer reads all counters of a program after each input; in one program with
//! all targets the small targets ran at a third of the speed. `cargo test -p fuzz` calls each target with its
//! seeds.

pub mod admin_http;
pub mod commit_log;
pub mod compressed_bodies;
pub mod configuration;
pub mod cql_execution;
pub mod cql_parser;
pub mod frame_decoding;
pub mod functions;
pub mod mutations;
pub mod paging_states;
pub mod records;
pub mod schema_file;
pub mod sstable_chunks;
pub mod sstable_components;
pub mod sstable_files;
pub mod values;

/// A function that examines any bytes, under the name of its module.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    pub examine: fn(&[u8]),
}

macro_rules! targets {
    ($($name:ident),* $(,)?) => {
        &[$(Target { name: stringify!($name), examine: $name::examine }),*]
    };
}

/// All fuzz targets.
pub const TARGETS: &[Target] = targets![
    admin_http,
    commit_log,
    compressed_bodies,
    configuration,
    cql_execution,
    cql_parser,
    frame_decoding,
    functions,
    mutations,
    paging_states,
    records,
    schema_file,
    sstable_chunks,
    sstable_components,
    sstable_files,
    values,
];

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::fs;
    use std::path::{Path, PathBuf};

    use super::*;

    fn names_in(dir: &str) -> BTreeSet<String> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join(dir);
        let stem = |path: PathBuf| path.file_stem().expect("a name").to_string_lossy().into_owned();
        fs::read_dir(dir).expect("a directory").map(|entry| stem(entry.expect("an entry").path())).collect()
    }

    #[test]
    fn each_module_is_a_target_with_a_program_and_seeds() {
        let targets: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
        let modules: BTreeSet<String> =
            names_in("src/targets").into_iter().filter(|name| name != "mod").collect();
        assert_eq!(targets, modules);
        assert_eq!(targets, names_in("fuzz_targets"));
        for target in &targets {
            let path = format!("{}/fuzz_targets/{target}.rs", env!("CARGO_MANIFEST_DIR"));
            let program = fs::read_to_string(&path).expect("a program");
            // Only fuzz/run.sh compiles these programs, so the test compares their text.
            let calls = format!("fuzz_target!(|data: &[u8]| fuzz::targets::{target}::examine(data));\n");
            assert!(program.ends_with(&calls), "{path} does not end with {calls}");
        }
        // `cql` is the dictionary of CQL keywords, not a directory of seeds.
        let seeds: BTreeSet<String> = names_in("seeds").into_iter().filter(|name| name != "cql").collect();
        assert_eq!(targets, seeds);
    }

    #[test]
    fn each_target_takes_its_seeds() {
        for target in TARGETS {
            let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("seeds").join(target.name);
            let mut paths: Vec<PathBuf> =
                fs::read_dir(dir).expect("seeds").map(|entry| entry.expect("an entry").path()).collect();
            paths.sort();
            assert!(!paths.is_empty(), "{} has no seeds", target.name);
            for path in paths {
                let seed = fs::read(&path).expect("a seed");
                // The test's output names the seed if the target panics.
                println!("{}", path.display());
                (target.examine)(&seed);
            }
        }
    }
}
