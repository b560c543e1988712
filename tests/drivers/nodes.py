"""A server to talk to: `Messina`, built from this tree, or `Cassandra`, a real one of one node, from Maven.

Both are started on free ports of 127.0.0.1 with a directory of their own, are ready when they have logged that they listen for CQL
clients, and can be stopped, killed and started again on the same files. What they print goes to `log` in their directory.
"""

import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
READY_LINE = "Starting listening for CQL clients on"
HOST = "127.0.0.1"

sys.path.insert(0, str(REPO / "tests" / "peers"))
import toolchain  # noqa: E402  (the jars and the JVM are the same as for the judges of SSTables)


class Trouble(Exception):
    """Something that stops the run without being a verdict on the server."""


class Node:
    """A server process. `cpus` ties it to these cores (`taskset -c`), `host` is the loopback address on which it listens."""

    name = "?"
    ready_within_s = 60

    def __init__(self, home=None, cpus=None, host=HOST):
        self.host = host
        self.own_home = home is None
        self.home = Path(home or tempfile.mkdtemp(prefix=f"{self.name}-"))
        self.home.mkdir(parents=True, exist_ok=True)
        self.log = self.home / "log"
        self.cpus = cpus
        self.process = None

    def command(self):
        raise NotImplementedError

    def start(self):
        """Returns when the server accepts clients; gives how long that took, in seconds."""
        begin = time.monotonic()
        from_byte = self.log.stat().st_size if self.log.exists() else 0
        pinned = ["taskset", "-c", self.cpus] if self.cpus else []
        with self.log.open("ab") as log:
            self.process = subprocess.Popen([*pinned, *map(str, self.command())], stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
                                            start_new_session=True, env=self.environment())
        while True:
            with self.log.open("rb") as log:
                log.seek(from_byte)
                if READY_LINE.encode() in log.read() and self.accepts():
                    return time.monotonic() - begin
            if self.process.poll() is not None:
                raise Trouble(f"{self.name} ended with {self.process.returncode} before it was ready:\n{self.tail()}")
            if time.monotonic() - begin > self.ready_within_s:
                self.kill()
                raise Trouble(f"{self.name} was not ready within {self.ready_within_s} s:\n{self.tail()}")
            time.sleep(0.005)

    def environment(self):
        return dict(os.environ)

    def accepts(self):
        """Whether the ready line was true when it was logged; what is known better of a server says so here."""
        return True

    def kill(self):
        """SIGKILL: nothing is written that was not."""
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
        if self.process:
            self.process.wait()

    def stop(self, within_s=60):
        """SIGTERM, as an administrator would; gives the exit status."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.kill()
                raise Trouble(f"{self.name} did not stop within {within_s} s of SIGTERM:\n{self.tail()}") from None
        return self.process.returncode

    def running(self):
        return self.process is not None and self.process.poll() is None

    def cpu_s(self):
        """CPU time of the process so far, user and system, all threads."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def resident_bytes(self):
        return int(Path(f"/proc/{self.process.pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def tail(self, lines=30):
        return "\n".join(self.log.read_text(errors="replace").splitlines()[-lines:])

    def remove(self):
        """Ends the process, and removes the directory if it was made here."""
        self.kill()
        if self.own_home:
            shutil.rmtree(self.home, ignore_errors=True)


class Messina(Node):
    """`messina serve` of this tree. `flags` come after the ports; `profile` is cargo's."""

    name = "messina"

    def __init__(self, home=None, cpus=None, flags=(), profile="release", host=HOST):
        super().__init__(home, cpus, host)
        self.binary = build_messina(profile)
        self.port, self.shard_aware_port, self.api_port, self.prometheus_port = free_ports(4, host)
        self.flags = list(flags)
        self.ready_within_s = 60

    def command(self):
        return [self.binary, "serve", "--data-dir", self.home / "data", "--listen-address", self.host, "--native-transport-port", self.port,
                "--set", f"native_shard_aware_transport_port={self.shard_aware_port}", "--api-port", self.api_port,
                "--prometheus-port", self.prometheus_port, *self.flags]

    def nodetool(self, *words):
        return run_nodetool([self.binary, "nodetool", "-h", self.host, "-p", self.api_port, *words])

    def data_dir(self):
        return self.home / "data" / "data"


class Cassandra(Node):
    """Apache Cassandra of one node.

    `latest`: the values of its own cassandra_latest.yaml (trie memtable off the heap, BTI SSTables, UnifiedCompactionStrategy ...) instead
    of those of cassandra.yaml. `heap`: as -Xmx takes it. `more_settings`: lines of the YAML file. The collector is G1 with the options of its own jvm17-server.options.
    """

    name = "cassandra"

    def __init__(self, home=None, cpus=None, latest=False, heap="1G", quick_start=True, series="5.0", host=HOST, more_settings=""):
        super().__init__(home, cpus, host)
        self.tools = toolchain.Toolchain(series)
        self.port, self.storage_port, self.jmx_port = free_ports(3, host)
        self.heap = heap
        self.quick_start = quick_start
        self.ready_within_s = 300
        for name in ["data", "commitlog", "hints", "saved_caches", "cdc_raw", "tmp"]:
            (self.home / name).mkdir(exist_ok=True)
        (self.home / "cassandra.yaml").write_text(self.settings(latest) + more_settings)

    def settings(self, latest):
        common = f"""cluster_name: one node
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
num_tokens: 16
listen_address: {self.host}
rpc_address: {self.host}
native_transport_port: {self.port}
storage_port: {self.storage_port}
ssl_storage_port: {self.storage_port}
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "{self.host}:{self.storage_port}"
data_file_directories: [ "{self.home}/data" ]
commitlog_directory: "{self.home}/commitlog"
hints_directory: "{self.home}/hints"
saved_caches_directory: "{self.home}/saved_caches"
cdc_raw_directory: "{self.home}/cdc_raw"
commitlog_sync: periodic
commitlog_sync_period: 10000ms
commitlog_segment_size: 32MiB
concurrent_reads: 32
concurrent_writes: 32
concurrent_counter_writes: 32
compaction_throughput: 64MiB/s
dynamic_snitch_update_interval: 100ms
"""
        if latest:
            return common + """memtable:
  configurations:
    skiplist:
      class_name: SkipListMemtable
    trie:
      class_name: TrieMemtable
    default:
      inherits: trie
memtable_allocation_type: offheap_objects
commitlog_disk_access_mode: auto
trickle_fsync: true
trickle_fsync_interval: 10240KiB
column_index_size: 4KiB
key_cache_size: 0MiB
sstable:
  selected_format: bti
uuid_sstable_identifiers_enabled: true
storage_compatibility_mode: NONE
default_compaction:
  class_name: UnifiedCompactionStrategy
  parameters:
    scaling_parameters: T4
    max_sstables_to_compact: 64
    target_sstable_size: 1GiB
    sstable_growth: 0.3333333333333333
    min_sstable_size: 100MiB
"""
        # For tests: a busy machine is no reason to fail.
        return common + """read_request_timeout: 30s
range_request_timeout: 30s
write_request_timeout: 30s
counter_write_request_timeout: 30s
cas_contention_timeout: 30s
request_timeout: 30s
truncate_request_timeout: 60s
"""

    def accepts(self):
        """Cassandra logs the line a moment before it listens."""
        try:
            socket.create_connection((self.host, self.port), 1).close()
            return True
        except OSError:
            return False

    def command(self):
        tools = self.tools
        flags = [f"-Xms{self.heap}", f"-Xmx{self.heap}", "-Xss512k", "-XX:+UseG1GC", "-XX:+ParallelRefProcEnabled", "-XX:MaxTenuringThreshold=1",
                 "-XX:G1HeapRegionSize=16m", "-XX:G1RSetUpdatingPauseTimePercent=5", "-XX:MaxGCPauseMillis=300",
                 "-XX:InitiatingHeapOccupancyPercent=70", "-XX:+AlwaysPreTouch", "-XX:+PerfDisableSharedMem", "-XX:+ExitOnOutOfMemoryError",
                 "-Djava.net.preferIPv4Stack=true", "-Dio.netty.tryReflectionSetAccessible=true", "-Dio.netty.allocator.useCacheForAllThreads=true",
                 "-Dio.netty.allocator.maxOrder=11", "-Djdk.attach.allowAttachSelf=true", "-Dfile.encoding=UTF-8", "-Dcassandra-foreground=yes",
                 f"-Dcassandra.config=file://{self.home}/cassandra.yaml", f"-Dcassandra.storagedir={self.home}", f"-Dcassandra.logdir={self.home}",
                 f"-Dlogback.configurationFile={HERE / 'conf' / 'logback.xml'}", f"-Djava.io.tmpdir={self.home}/tmp",
                 f"-Dcassandra.jmx.local.port={self.jmx_port}"]
        if self.quick_start:  # a node alone need not wait for others
            flags += ["-Dcassandra.ring_delay_ms=0", "-Dcassandra.skip_wait_for_gossip_to_settle=0"]
        flags += [f"-javaagent:{agent}" for agent in tools.jars.glob("jamm-*.jar")]
        for package in [*toolchain.EXPORTS, "java.base/java.lang.ref", "jdk.unsupported/sun.misc", "jdk.compiler/com.sun.tools.javac.file",
                        "jdk.attach/sun.tools.attach"]:
            flags += ["--add-exports", f"{package}=ALL-UNNAMED"]
        for package in [*toolchain.OPENS, "jdk.compiler/com.sun.tools.javac"]:
            flags += ["--add-opens", f"{package}=ALL-UNNAMED"]
        return [tools.java_home / "bin" / "java", *flags, "-cp", self.classpath(), "org.apache.cassandra.service.CassandraDaemon"]

    def classpath(self):
        return ":".join(sorted(str(jar) for jar in self.tools.jars.glob("*.jar")))

    def nodetool(self, *words):
        """Cassandra's own, over JMX; gives what it printed."""
        flags = [flag for package in toolchain.EXPORTS for flag in ("--add-exports", f"{package}=ALL-UNNAMED")]
        command = [self.tools.java_home / "bin" / "java", "-Xmx256M", *flags, f"-Dcassandra.storagedir={self.home}", "-cp", self.classpath(),
                   f"-Dlogback.configurationFile={HERE / 'conf' / 'logback.xml'}", "org.apache.cassandra.tools.NodeTool", "-h", HOST, "-p", self.jmx_port, *words]
        return run_nodetool(command)

    def data_dir(self):
        return self.home / "data"


def run_nodetool(command):
    done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Trouble(f"nodetool {' '.join(map(str, command[-4:]))} ended with {done.returncode}:\n{done.stdout}")
    return done.stdout


def build_messina(profile):
    """The binary, built if it is not up to date; BINARY_UNDER_TEST names another that is taken as it is."""
    if "BINARY_UNDER_TEST" in os.environ:
        return Path(os.environ["BINARY_UNDER_TEST"])
    return build(profile, "messina", "messina")


def build(profile, package, binary):
    """A binary of the workspace, built if it is not up to date."""
    directory = "debug" if profile == "dev" else profile
    done = subprocess.run(["cargo", "build", "-q", "--profile", profile, "-p", package, "--bin", binary], cwd=REPO)
    if done.returncode != 0:
        raise Trouble(f"cargo build --profile {profile} -p {package} failed")
    return Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")).resolve() / directory / binary


def free_ports(count, host=HOST):
    """TCP ports of the loopback that nobody listened on a moment ago."""
    sockets = [socket.create_server((host, 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports
