"""A ring of Cassandra 5.0 nodes on loopback addresses, with or without Messina's jar.

All nodes have the same ports on addresses of their own (127.0.24.1 …), and JMX on 127.0.0.1. Before the first node starts, free memory and
ports are checked. Nodes are ended by their process ids.
"""

import socket
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "drivers"))
import nodes  # noqa: E402

STORAGE_PORT = 24000
CQL_PORT = 24042
JMX_PORT = 24050
HEAP_MB = 768
#: What a node takes beside its heap: the JVM, metaspace, direct buffers.
NODE_MB = HEAP_MB + 700


def address(number):
    return f"127.0.24.{number}"


class RingNode(nodes.Cassandra):
    """Node `number`, from 1. `jar`: Messina's jar, or None; `native`: its library merges too. `compatibility`: storage_compatibility_mode; CASSANDRA_4 writes nb, NONE oa."""

    def __init__(self, number, jar=None, native=False, compatibility="CASSANDRA_4", home=None):
        self.number = number
        self.jar = jar
        self.native = native
        self.compatibility = compatibility
        super().__init__(home=home, heap=f"{HEAP_MB}M", host=address(number))
        self.set_ports()

    def set_ports(self):
        self.port, self.storage_port, self.jmx_port = CQL_PORT, STORAGE_PORT, JMX_PORT + self.number
        (self.home / "cassandra.yaml").write_text(self.settings(False))

    def settings(self, latest):
        text = super().settings(latest)
        text = text.replace("cluster_name: one node", "cluster_name: test ring")
        text = text.replace(f'- seeds: "{self.host}:{self.storage_port}"', f'- seeds: "{address(1)}:{STORAGE_PORT}"')
        return text + f"""auto_bootstrap: false
storage_compatibility_mode: {self.compatibility}
uuid_sstable_identifiers_enabled: false
sasi_indexes_enabled: false
"""

    def command(self):
        command = super().command()
        if self.native:
            command.insert(1, "-Dmessina.native_merges=true")
        return [word.replace("ring_delay_ms=0", "ring_delay_ms=3000") if isinstance(word, str) else word for word in command]

    def classpath(self):
        jars = [str(self.jar)] if self.jar else []
        return ":".join([*jars, super().classpath()])

    def tool(self, main, *words):
        """An offline tool of Cassandra's; the node must be stopped. Returns its exit status and output."""
        flags = [flag for package in nodes.toolchain.EXPORTS for flag in ("--add-exports", f"{package}=ALL-UNNAMED")]
        flags += [flag for package in nodes.toolchain.OPENS for flag in ("--add-opens", f"{package}=ALL-UNNAMED")]
        command = [self.tools.java_home / "bin" / "java", "-Xmx512M", *flags, f"-Dcassandra.config=file://{self.home}/cassandra.yaml",
                   f"-Dcassandra.storagedir={self.home}", f"-Dlogback.configurationFile={nodes.HERE / 'conf' / 'logback.xml'}",
                   "-cp", self.classpath(), f"org.apache.cassandra.tools.{main}", *words]
        done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        return done.returncode, done.stdout


def check_room(count):
    """Raises if the machine lacks the memory for `count` nodes, or if a port is taken."""
    for line in Path("/proc/meminfo").read_text().splitlines():
        name, value = line.split(":")
        if name == "MemAvailable":
            available_mb = int(value.split()[0]) // 1024
            if available_mb < count * NODE_MB:
                raise nodes.Trouble(f"{count} nodes need {count * NODE_MB} MB of memory, {available_mb} MB are available")
    wanted = [(address(number), port) for number in range(1, count + 1) for port in (STORAGE_PORT, CQL_PORT)]
    wanted += [(nodes.HOST, JMX_PORT + number) for number in range(1, count + 1)]
    for host, port in wanted:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, port))
            except OSError as error:
                raise nodes.Trouble(f"port {port} of {host} is taken: {error}") from None


class Ring:
    """`count` nodes, started one after the other."""

    def __init__(self, count, jar, native=False, compatibility="CASSANDRA_4"):
        check_room(count)
        self.members = []
        try:
            for number in range(1, count + 1):
                node = RingNode(number, jar, native, compatibility)
                self.members.append(node)
                node.start()
        except BaseException:
            self.remove()
            raise

    def __iter__(self):
        return iter(self.members)

    def nodetool(self, *words):
        """On each node in turn; returns the outputs."""
        return [node.nodetool(*words) for node in self.members]

    def restart(self, jar, kill=False):
        """Ends all nodes (SIGTERM, or SIGKILL) and starts them again with another jar."""
        for node in self.members:
            node.kill() if kill else node.stop(120)
        for node in self.members:
            node.jar = jar
            node.start()

    def remove(self):
        for node in self.members:
            node.remove()
