//! SUPPORTED: the options that a client can request at STARTUP, and how to find the shards.
//!
//! The sharding options are those of ScyllaDB's drivers ("protocol extensions" in its documentation): a
//! driver opens one connection per shard and sends each request to the shard that owns its token.

use super::ProtocolVersion;

/// The shard of a connection, and how tokens are mapped to shards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardingInfo {
    /// The shard that serves the connection.
    pub shard: u32,
    /// The number of shards of the node.
    pub shards_count: u32,
    /// Number of the token's high bits that are ignored when the shard is computed.
    pub ignore_msb: u32,
    /// A port on which the client's source port selects the shard.
    pub shard_aware_port: Option<u16>,
    /// The same with TLS.
    pub shard_aware_port_ssl: Option<u16>,
}

/// The contents of SUPPORTED.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Supported {
    /// The CQL version, `3.4.7`.
    pub cql_version: String,
    /// Algorithm names, as in STARTUP's COMPRESSION.
    pub compression: Vec<String>,
    /// For drivers that open a connection to each shard; `None`: not reported.
    pub sharding: Option<ShardingInfo>,
    /// Offers to mark conditional statements in the answer to PREPARE with [`Self::LWT_MARK`].
    pub lwt_mark: bool,
    /// Offers to refuse requests over the rate limit with this error code.
    pub rate_limit_error: Option<i32>,
}

impl Supported {
    /// The flag of a conditional statement in the metadata of PREPARE's answer. Set if the client sends
    /// [`Self::LWT_OPTION`] at STARTUP.
    pub const LWT_MARK: u32 = 0x8000_0000;
    /// The option by which ScyllaDB's drivers ask for the mark of conditional statements.
    pub const LWT_OPTION: &'static str = "SCYLLA_LWT_ADD_METADATA_MARK";
    /// The option by which ScyllaDB's drivers ask for the error code of the rate limit.
    pub const RATE_LIMIT_OPTION: &'static str = "SCYLLA_RATE_LIMIT_ERROR";
    /// The partitioner, for drivers that compute tokens.
    pub const PARTITIONER: &'static str = "org.apache.cassandra.dht.Murmur3Partitioner";
    /// The assignment of tokens to shards, for the same drivers.
    pub const SHARDING_ALGORITHM: &'static str = "biased-token-round-robin";

    /// Offers LZ4 and Snappy, no sharding, no extension.
    pub fn new(cql_version: &str) -> Self {
        Self {
            cql_version: cql_version.into(),
            compression: vec!["snappy".into(), "lz4".into()],
            sharding: None,
            lwt_mark: false,
            rate_limit_error: None,
        }
    }

    /// The options as a multimap: `PROTOCOL_VERSIONS`, `COMPRESSION`, `CQL_VERSION`, then the options that
    /// begin with `SCYLLA_`. Clients must not depend on the order.
    pub fn options(&self) -> Vec<(&'static str, Vec<String>)> {
        let versions = ProtocolVersion::ALL.map(|version| version.to_string()).to_vec();
        let mut options = vec![
            ("PROTOCOL_VERSIONS", versions),
            ("COMPRESSION", self.compression.clone()),
            ("CQL_VERSION", vec![self.cql_version.clone()]),
        ];
        if let Some(sharding) = &self.sharding {
            options.push(("SCYLLA_SHARD", vec![sharding.shard.to_string()]));
            options.push(("SCYLLA_NR_SHARDS", vec![sharding.shards_count.to_string()]));
            options.push(("SCYLLA_PARTITIONER", vec![Self::PARTITIONER.into()]));
            options.push(("SCYLLA_SHARDING_ALGORITHM", vec![Self::SHARDING_ALGORITHM.into()]));
            options.push(("SCYLLA_SHARDING_IGNORE_MSB", vec![sharding.ignore_msb.to_string()]));
            if let Some(port) = sharding.shard_aware_port {
                options.push(("SCYLLA_SHARD_AWARE_PORT", vec![port.to_string()]));
            }
            if let Some(port) = sharding.shard_aware_port_ssl {
                options.push(("SCYLLA_SHARD_AWARE_PORT_SSL", vec![port.to_string()]));
            }
        }
        if self.lwt_mark {
            let mask = format!("LWT_OPTIMIZATION_META_BIT_MASK={}", Self::LWT_MARK);
            options.push((Self::LWT_OPTION, vec![mask]));
        }
        if let Some(code) = self.rate_limit_error {
            options.push((Self::RATE_LIMIT_OPTION, vec![format!("ERROR_CODE={code}")]));
        }
        options
    }
}
