//! The workloads that the program contains: those of the documents, and some that are common.

/// Name and text of each.
pub const SHIPPED: &[(&str, &str)] = &[
    ("example1", include_str!("../../workloads/example1.yaml")),
    ("example2", include_str!("../../workloads/example2.yaml")),
    ("example3", include_str!("../../workloads/example3.yaml")),
    ("example3-8x", include_str!("../../workloads/example3-8x.yaml")),
    ("write-only", include_str!("../../workloads/write-only.yaml")),
    ("overwrite", include_str!("../../workloads/overwrite.yaml")),
    ("read-mostly", include_str!("../../workloads/read-mostly.yaml")),
    ("read-update", include_str!("../../workloads/read-update.yaml")),
    ("time-series", include_str!("../../workloads/time-series.yaml")),
    ("queue", include_str!("../../workloads/queue.yaml")),
    ("write-delete", include_str!("../../workloads/write-delete.yaml")),
    ("ten-terabytes", include_str!("../../workloads/ten-terabytes.yaml")),
];

/// The text of a shipped workload.
pub fn find(name: &str) -> Option<&'static str> {
    SHIPPED.iter().find(|(known, _)| *known == name).map(|(_, text)| *text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workload::parse;

    #[test]
    fn every_shipped_workload_is_valid_and_says_what_it_is() {
        for (name, text) in SHIPPED {
            let workload = parse(name, text).unwrap();
            assert!(workload.about.len() > 20, "{name}");
            assert_eq!(find(name), Some(*text));
        }
        assert_eq!(find("example9"), None);
    }
}
