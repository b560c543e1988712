//! The contents of the system tables that are computed when they are read, and the keyspaces of such tables.

pub const DISTRIBUTED: &str = "system_distributed";
/// Tables on the current activity of the node.
pub const VIEWS_KS: &str = "system_views";

/// The content of a computed table. Each table has a content, and the code that fills the tables matches all
/// contents, so a table that is declared but not filled does not compile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Content {
    /// Always empty: the node is alone, builds no views, repairs nothing, or does not measure the table's
    /// values.
    Nothing,
    /// The catalog in the form of `system_schema`.
    Schema,
    Local,
    SizeEstimates,
    TableEstimates,
    LargePartitions,
    LargeRows,
    LargeCells,
    ReaderSemaphores,
    ReaderPermits,
    Memory,
    Versions,
    RuntimeInfo,
    TokenRing,
    Config,
    TraceSessions,
    TraceEvents,
    PreparedStatements,
    Clients,
    /// Cassandra's table of clients, in [`VIEWS_KS`].
    ClientsOfViews,
    DiskUsage,
    MaxPartitionSize,
    MaxSSTableSize,
    LocalReadLatency,
    LocalWriteLatency,
    SSTableTasks,
    Caches,
    ThreadPools,
    CqlMetrics,
    SystemProperties,
    Snapshots,
    /// Built secondary indexes of all kinds.
    BuiltIndexes,
    /// Built materialized views.
    BuiltViews,
    /// Materialized views that are being built.
    ViewBuilds,
    /// Storage-attached indexes.
    AttachedIndexes,
    Settings,
    VirtualKeyspaces,
    VirtualTables,
    VirtualColumns,
}
