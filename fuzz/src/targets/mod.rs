//! All fuzz targets, by name: each is a function that takes any bytes and must not panic.
//!
//! `fuzz/run.sh` has libFuzzer call them, each in a program of its own (`fuzz/fuzz_targets/`) with
//! AddressSanitizer: libFuzzer looks
//! through all counters of a program after each input, and one program of all targets ran the small ones
//! at a third of the speed.
//! `cargo test -p fuzz` calls each target with its seeds.

pub mod admin_http;
pub mod commit_log;
pub mod compressed_bodies;
pub mod configuration;
pub mod cql_execution;
pub mod cql_parser;
pub mod frame_decoding;
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

/// All of them.
pub const TARGETS: &[Target] = targets![
    admin_http,
    commit_log,
    compressed_bodies,
    configuration,
    cql_execution,
    cql_parser,
    frame_decoding,
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
            // Programs are compiled by fuzz/run.sh alone: this keeps them as they are.
            let calls = format!("fuzz_target!(|data: &[u8]| fuzz::targets::{target}::examine(data));\n");
            assert!(program.ends_with(&calls), "{path} does not end with {calls}");
        }
        // Beside the directories of seeds stands the dictionary of CQL's words.
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
