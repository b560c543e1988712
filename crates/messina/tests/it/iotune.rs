//! `messina iotune` on the disk of the target directory, for a short time.

use std::fs;
use std::path::Path;

use crate::process::{Dir, output};

#[test]
fn a_disk_is_measured_and_nothing_is_left() {
    let dir = Dir::new("iotune");
    let path = |name: &str| dir.0.join(name).to_str().unwrap().to_string();
    // Temporary files may be in memory, where nothing can be measured.
    let on_disk = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("iotune-{}", std::process::id()));
    fs::create_dir_all(&on_disk).unwrap();
    let (data, properties) = (on_disk.to_str().unwrap().to_string(), path("io_properties.yaml"));
    let short =
        ["iotune", "--dir", &data, "--duration", "500ms", "--file-size", "64M", "--output", &properties];
    let (status, text) = output(&[&short[..], &["--matrix", "2", "--point-duration", "100ms"]].concat());
    assert!(status.success(), "{data} must be on a disk: {text}");
    assert!(text.contains("measuring small reads") && text.contains("   4 of 4: "), "{text}");
    let written = fs::read_to_string(&properties).unwrap();
    for field in ["read_iops", "read_bandwidth", "write_iops", "write_bandwidth", &data] {
        assert!(written.contains(field), "{field}: {written}");
    }
    assert!(fs::read_to_string(path("iotune-p95.svg")).unwrap().contains("Latency of reads, p95"));
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    fs::remove_dir(&on_disk).unwrap();
    let mut names: Vec<_> = fs::read_dir(&dir.0).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["io_properties.yaml", "iotune-p50.svg", "iotune-p95.svg"]);
}

#[test]
fn an_unwritable_output_is_reported_at_once() {
    let dir = Dir::new("iotune-refused");
    let data = dir.0.to_str().unwrap();
    let (status, text) = output(&["iotune", "--dir", data, "--output", "/no/such/place/io.yaml"]);
    assert!(!status.success() && text.contains("--output /no/such/place/io.yaml.part: "), "{text}");
    let output_path = dir.0.join("io.yaml");
    let (status, text) = output(&["iotune", "--dir", "/dev/shm", "--output", output_path.to_str().unwrap()]);
    assert!(!status.success() && text.contains("/dev/shm: these files are in memory"), "{text}");
    assert_eq!(fs::read_dir(&dir.0).unwrap().count(), 0);
}
