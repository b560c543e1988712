//! Commands of Cassandra's and ScyllaDB's nodetool that need more than one node, or a part that Messina does
//! not have.
//!
//! [`COMMANDS`] lists them with their answers. A command that would find nothing to do on one node succeeds
//! with a line that says so; a command that would change something that is not there fails with the reason.
//! Arguments are taken as Cassandra and ScyllaDB take them and not interpreted, so that existing scripts run.
//! Each command asks the node first, so it fails if no node answers.

use clap::error::ErrorKind;
use clap::{Arg, ArgAction, ArgMatches, Command, Error, FromArgMatches, Subcommand, value_parser};
use server::api::answers::Version;

use super::call::Call;

/// The answer of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OneNodeAnswer {
    /// Success: there is nothing to do, because of this.
    Nothing(&'static str),
    /// Success: the state, in the words of Cassandra's nodetool.
    State(&'static str),
    /// Failure, because of this.
    Refused(&'static str),
}

/// A command: its name, its help, its answer.
type Known = (&'static str, &'static str, OneNodeAnswer);

use OneNodeAnswer::{Nothing, Refused, State};

const ALONE: &str = "the node is the whole cluster";
const NO_HINTS: &str = "no other node can miss a write, so there are no hints";
const NO_STREAMS: &str = "there is no other node to stream to";
const NO_CIDR: &str = "connections are not restricted by network (CIDR)";
const NO_AUTH_CACHE: &str = "roles and permissions are read where they are stored; a change acts at once";
const NO_QUERY_LOG: &str = "there is no full query log";
const NO_AUTO_REPAIR: &str = "there is one copy of each partition, so nothing is repaired";
const NO_GUARDRAILS: &str = "limits are options of messina.yaml: SELECT * FROM system_views.settings";

/// See the head of this file.
pub const COMMANDS: &[Known] = &[
    ("abortbootstrap", "Ends a failed join of a node", Refused("the node has joined: it is alone")),
    ("assassinate", "Removes a dead node without copying its data", Refused(ALONE)),
    ("autorepairstatus", "Shows the state of automatic repairs", Nothing(NO_AUTO_REPAIR)),
    (
        "backup",
        "Copies snapshots to object storage",
        Refused("use `messina backup create`, which copies to directories and object storage"),
    ),
    ("bootstrap", "Resumes the join of a node", Refused("the node has joined: it is alone")),
    (
        "checkAndRepairCdcStreams",
        "Checks the streams of CDC against the ring",
        Nothing("all streams belong to this node"),
    ),
    ("checktokenmetadata", "Compares gossip with the ring", Nothing("there is one token and no gossip")),
    ("cidrfilteringstats", "Shows statistics of network restrictions", Nothing(NO_CIDR)),
    ("cluster", "Repairs or cleans up all nodes", Nothing(NO_AUTO_REPAIR)),
    (
        "decommission",
        "Moves the data of this node to others and ends it",
        Refused("no other node could take the data"),
    ),
    ("disablebackup", "Ends incremental backups", Nothing("there are no incremental backups")),
    ("disablefullquerylog", "Ends the full query log", Nothing(NO_QUERY_LOG)),
    ("disablegossip", "Ends gossip with other nodes", Nothing("there is no other node to gossip with")),
    ("disablehandoff", "Ends hints for other nodes", Nothing(NO_HINTS)),
    ("disablehintsfordc", "Ends hints for a data center", Nothing(NO_HINTS)),
    (
        "disableoldprotocolversions",
        "Refuses clients with old versions of the protocol",
        Refused("versions of the protocol cannot be excluded"),
    ),
    ("dropcidrgroup", "Drops a group of networks", Refused(NO_CIDR)),
    (
        "dropquarantinedsstables",
        "Removes SSTables in quarantine",
        Refused(
            "SSTables in quarantine are part of their table: nodetool scrub keeps their readable content",
        ),
    ),
    (
        "enablebackup",
        "Begins incremental backups",
        Refused("use `messina backup create`, which copies only new SSTables"),
    ),
    ("enablefullquerylog", "Begins a log of all queries", Refused(NO_QUERY_LOG)),
    ("enablegossip", "Begins gossip with other nodes", Nothing("there is no other node to gossip with")),
    ("enablehandoff", "Begins hints for other nodes", Nothing(NO_HINTS)),
    ("enablehintsfordc", "Begins hints for a data center", Nothing(NO_HINTS)),
    (
        "enableoldprotocolversions",
        "Serves clients with old versions of the protocol",
        Nothing("all versions that the node knows are served"),
    ),
    ("excludenode", "Excludes dead nodes from operations", Refused(ALONE)),
    (
        "forcecompact",
        "Purges the tombstones of partitions before gc_grace_seconds is over",
        Refused(
            "tombstones are kept for gc_grace_seconds; ALTER TABLE … WITH gc_grace_seconds = 0, which loses nothing on one \
             node, and nodetool compact purge them",
        ),
    ),
    ("getauthcacheconfig", "Shows the options of a cache of roles", Nothing(NO_AUTH_CACHE)),
    ("getautorepairconfig", "Shows the options of automatic repairs", Nothing(NO_AUTO_REPAIR)),
    (
        "getbatchlogreplaythrottle",
        "Shows the limit of replays of batches",
        Nothing("batches are not replayed on other nodes"),
    ),
    ("getcidrgroupsofip", "Shows the groups of networks of an address", Nothing(NO_CIDR)),
    (
        "getcolumnindexsize",
        "Shows the granularity of row indexes",
        State("Current value for column_index_size: 64 KiB"),
    ),
    (
        "getconcurrentviewbuilders",
        "Shows the limit of concurrent builds of views",
        Nothing("builds of views have no limit of their own"),
    ),
    ("getdefaultrf", "Shows the default number of replicas", State("1")),
    ("getfullquerylog", "Shows the options of the full query log", State("enabled false")),
    ("getguardrailsconfig", "Shows guardrails", Nothing(NO_GUARDRAILS)),
    ("getinterdcstreamthroughput", "Shows the limit of streams between data centers", Nothing(NO_STREAMS)),
    ("getmaxhintwindow", "Shows for how long hints are kept", Nothing(NO_HINTS)),
    ("getsnapshotthrottle", "Shows the limit of snapshots", State("Snapshot throttle is disabled")),
    ("getstreamthroughput", "Shows the limit of streams", Nothing(NO_STREAMS)),
    ("invalidatecidrpermissionscache", "Empties the cache of network permissions", Nothing(NO_AUTH_CACHE)),
    (
        "invalidatecountercache",
        "Empties the cache of counters",
        Nothing("counters have no cache of their own"),
    ),
    ("invalidatecredentialscache", "Empties the cache of passwords", Nothing(NO_AUTH_CACHE)),
    ("invalidatejmxpermissionscache", "Empties the cache of JMX permissions", Nothing("there is no JMX")),
    (
        "invalidatenetworkpermissionscache",
        "Empties the cache of data centers of roles",
        Nothing(NO_AUTH_CACHE),
    ),
    ("invalidatepermissionscache", "Empties the cache of permissions", Nothing(NO_AUTH_CACHE)),
    ("invalidaterolescache", "Empties the cache of roles", Nothing(NO_AUTH_CACHE)),
    ("join", "Joins a ring", Refused("the node has joined: it is alone")),
    ("listcidrgroups", "Shows the groups of networks", Nothing(NO_CIDR)),
    ("listpendinghints", "Shows hints for other nodes", Nothing(NO_HINTS)),
    (
        "move",
        "Moves the node to another token",
        Refused("the node owns the whole ring whatever its token is"),
    ),
    ("pausehandoff", "Pauses the delivery of hints", Nothing(NO_HINTS)),
    ("rebuild", "Copies data from other nodes", Nothing("no other node has data")),
    ("reloadcidrgroupscache", "Reads the groups of networks again", Nothing(NO_CIDR)),
    (
        "reloadlocalschema",
        "Reads the schema from system tables",
        Nothing("the schema in memory is the one of system_schema"),
    ),
    ("reloadseeds", "Reads the list of seed nodes again", Nothing("there are no seed nodes")),
    ("reloadtriggers", "Reads the classes of triggers again", Nothing("there are no triggers")),
    (
        "refreshsizeestimates",
        "Computes system.size_estimates",
        Nothing("system.size_estimates is computed when it is read"),
    ),
    ("relocatesstables", "Moves SSTables to their data directory", Nothing("there is one data directory")),
    ("removenode", "Removes a dead node", Refused(ALONE)),
    ("repair", "Compares the copies of partitions on all nodes", Nothing(NO_AUTO_REPAIR)),
    ("repair_admin", "Shows and ends repairs", Nothing("there are no repairs")),
    ("replaybatchlog", "Replays batches on other nodes", Nothing("no batch waits for another node")),
    ("resetfullquerylog", "Ends the full query log and removes its files", Nothing(NO_QUERY_LOG)),
    ("resetlocalschema", "Takes the schema from other nodes", Refused("no other node has the schema")),
    ("restore", "Copies SSTables from object storage", Refused("use `messina backup restore`")),
    ("resumehandoff", "Resumes the delivery of hints", Nothing(NO_HINTS)),
    ("setauthcacheconfig", "Sets the options of a cache of roles", Refused(NO_AUTH_CACHE)),
    ("setautorepairconfig", "Sets the options of automatic repairs", Refused(NO_AUTO_REPAIR)),
    (
        "setbatchlogreplaythrottle",
        "Limits replays of batches",
        Refused("batches are not replayed on other nodes"),
    ),
    (
        "setcachecapacity",
        "Sets the memory of caches",
        Refused("caches share the memory that memtables leave; the option memory sets it, with a restart"),
    ),
    ("setcachekeystosave", "Sets the number of saved keys", Refused("caches are not saved")),
    (
        "setcolumnindexsize",
        "Sets the granularity of row indexes",
        Refused("the granularity of row indexes is 64 KiB and cannot be changed"),
    ),
    (
        "setcompactionthreshold",
        "Sets the thresholds of compaction",
        Refused(
            "ALTER TABLE … WITH compaction = {…, 'min_threshold': …, 'max_threshold': …} sets them at once",
        ),
    ),
    (
        "setconcurrency",
        "Sets the size of a pool of threads",
        Refused("there are no pools of threads; shares and limits of service levels divide the CPU"),
    ),
    (
        "setconcurrentviewbuilders",
        "Limits concurrent builds of views",
        Refused("builds of views have no limit of their own"),
    ),
    ("setdefaultrf", "Sets the default number of replicas", Refused("one node can have one replica")),
    ("setguardrailsconfig", "Sets guardrails", Refused(NO_GUARDRAILS)),
    ("sethintedhandoffthrottlekb", "Limits the delivery of hints", Refused(NO_HINTS)),
    ("setinterdcstreamthroughput", "Limits streams between data centers", Refused(NO_STREAMS)),
    ("setmaxhintwindow", "Sets for how long hints are kept", Refused(NO_HINTS)),
    (
        "setsnapshotthrottle",
        "Limits the rate of snapshots",
        Refused("a snapshot links files and needs no limit"),
    ),
    ("setstreamthroughput", "Limits streams", Refused(NO_STREAMS)),
    ("sjk", "Runs a tool for the Java virtual machine", Refused("there is no Java virtual machine")),
    (
        "sstablerepairedset",
        "Marks SSTables as repaired",
        Refused("there are no repairs that SSTables could be part of"),
    ),
    ("statusbackup", "Shows whether incremental backups are made", State("not running")),
    ("statusgossip", "Shows whether the node gossips", State("not running")),
    ("statushandoff", "Shows whether hints are stored", State("Hinted handoff is not running")),
    ("truncatehints", "Removes hints", Nothing(NO_HINTS)),
    ("updatecidrgroup", "Changes a group of networks", Refused(NO_CIDR)),
];

/// A command of [`COMMANDS`].
#[derive(Clone, Debug)]
pub struct OneNodeCommand {
    name: &'static str,
    answer: OneNodeAnswer,
}

impl OneNodeCommand {
    fn find(name: &str) -> Option<Self> {
        let found = COMMANDS.iter().find(|(known, ..)| *known == name);
        found.map(|(name, _, answer)| Self { name, answer: *answer })
    }

    pub fn run(&self, call: &Call) -> Result<String, String> {
        // Fails if no node answers.
        call.get("/v1/version", |_: Version| String::new())?;
        match self.answer {
            Nothing(why) => call.say(&format!("{}: one node: nothing to do: {why}", self.name)),
            State(state) => call.say(state),
            Refused(why) => Err(format!("{}: one node: {why}", self.name)),
        }
    }
}

/// Its name, its help, and arguments of any form.
fn definition((name, about, _): &Known) -> Command {
    let arguments = Arg::new("arguments")
        .help("Arguments of the vendors' nodetool; they change nothing on one node")
        .num_args(0..)
        .action(ArgAction::Append)
        .trailing_var_arg(true)
        .allow_hyphen_values(true)
        .value_parser(value_parser!(String));
    Command::new(*name).about(*about).arg(arguments)
}

impl FromArgMatches for OneNodeCommand {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        let found = matches.subcommand_name().and_then(Self::find);
        found.ok_or_else(|| Error::raw(ErrorKind::MissingSubcommand, "a command is missing"))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl Subcommand for OneNodeCommand {
    fn augment_subcommands(command: Command) -> Command {
        command.subcommands(COMMANDS.iter().map(definition))
    }

    fn augment_subcommands_for_update(command: Command) -> Command {
        Self::augment_subcommands(command)
    }

    fn has_subcommand(name: &str) -> bool {
        Self::find(name).is_some()
    }
}
