#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::targets::cql_parser::examine(data));
