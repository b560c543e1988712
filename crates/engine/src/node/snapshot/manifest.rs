//! `manifest.json` of a snapshot, in Cassandra's format (`SnapshotManifest`): the Data.db files, the time of
//! creation, the time of expiry and whether it is ephemeral. Snapshots of this node neither expire nor are
//! ephemeral.

use model::CqlType;

pub const FILE_NAME: &str = "manifest.json";

/// The text of a manifest. `data_files` are the names of the Data.db files, in any order.
pub fn text(mut data_files: Vec<String>, created_at_ms: i64) -> String {
    data_files.sort();
    let files: Vec<String> = data_files.iter().map(|name| CqlType::Text.json_of(name.as_bytes())).collect();
    let created_at = CqlType::Timestamp.text_of(&created_at_ms.to_be_bytes());
    format!(
        "{{\"files\":[{}],\"created_at\":\"{}\",\"expires_at\":null,\"ephemeral\":false}}\n",
        files.join(","),
        created_at.trim_matches('\'')
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_looks_as_cassandras() {
        let files = vec!["me-2-big-Data.db".to_string(), "me-1-big-Data.db".to_string()];
        assert_eq!(
            text(files, 1_700_000_000_123),
            "{\"files\":[\"me-1-big-Data.db\",\"me-2-big-Data.db\"],\"created_at\":\"2023-11-14T22:13:20.123Z\",\
             \"expires_at\":null,\"ephemeral\":false}\n"
        );
        assert!(text(vec![], 0).starts_with("{\"files\":[],\"created_at\":\"1970-01-01T00:00:00.000Z\""));
    }
}
