"""Gets Cassandra's jars and a JVM that runs them, and starts that JVM.

The jars come from Maven by package name (pom.xml) and, with our compiled Java, stay in `.cache/peers/` at the root of the
repository; a second run needs no network. Cassandra 4.1 is made for Java 8 and 11 and 5.0 for 11 and 17; with the module flags
below both run on 11 to 17 (23 and older in principle: the trap for System.exit needs a security manager, which 24 removed).
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPO = HERE.parent.parent
CACHE = REPO / ".cache" / "peers"

#: The exact release behind each supported series. Raise them by hand, so that a run can be repeated.
RELEASES = {"4.1": "4.1.10", "5.0": "5.0.9"}

#: What Cassandra reaches into inside the JDK: its own scripts pass the same list to the JVM that it starts for a tool.
EXPORTS = [
    "java.base/jdk.internal.misc",
    "java.base/jdk.internal.ref",
    "java.base/sun.nio.ch",
    "java.rmi/sun.rmi.registry",
    "java.rmi/sun.rmi.server",
    "java.sql/java.sql",
    "java.management.rmi/com.sun.jmx.remote.internal.rmi",
]
OPENS = [
    "java.base/java.io",
    "java.base/java.lang",
    "java.base/java.lang.module",
    "java.base/java.lang.reflect",
    "java.base/java.math",
    "java.base/java.net",
    "java.base/java.nio",
    "java.base/java.util",
    "java.base/java.util.concurrent",
    "java.base/java.util.concurrent.atomic",
    "java.base/jdk.internal.loader",
    "java.base/jdk.internal.math",
    "java.base/jdk.internal.module",
    "java.base/jdk.internal.ref",
    "java.base/jdk.internal.reflect",
    "java.base/jdk.internal.util.jar",
    "java.base/sun.nio.ch",
    "jdk.management/com.sun.management.internal",
]


class Trouble(Exception):
    """Something that stops the harness itself, with what to do about it; not a verdict on an SSTable."""


class Toolchain:
    """A Cassandra release on a JVM, ready to run."""

    def __init__(self, series):
        self.series = series
        self.release = os.environ.get("PEERS_CASSANDRA_RELEASE", RELEASES[series])
        self.java_home, self.java_major = find_java()
        self.jars = self._install()
        self.classes = self._compile()
        self._class_data = CACHE / f"classdata-{self.release}-java{self.java_major}-{self.classes.name}.jsa"

    def _install(self):
        """Cassandra's jars; fetched once."""
        jars = CACHE / f"jars-{self.release}"
        if (jars / "complete").exists():
            return jars
        if shutil.which("mvn") is None:
            raise Trouble("mvn is not on the path: install Maven (Debian: apt-get install maven)")
        jars.mkdir(parents=True, exist_ok=True)
        say(f"fetching Cassandra {self.release} through Maven into {jars} (once)")
        done = subprocess.run(
            ["mvn", "-B", "-q", "-f", str(HERE / "pom.xml"), "dependency:copy-dependencies", "-DincludeScope=runtime",
             f"-DoutputDirectory={jars}", f"-Dcassandra.version={self.release}"],
            env=dict(os.environ, JAVA_HOME=str(self.java_home)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0 or not (jars / f"cassandra-all-{self.release}.jar").exists():
            raise Trouble(f"Maven could not fetch cassandra-all {self.release}; is there a network?\n{done.stdout[-3000:]}")
        (jars / "complete").touch()
        return jars

    def _compile(self):
        """Our Java, compiled against that release; again when a source changes."""
        sources = sorted(source for folder in ["java", f"java-{self.series}"] for source in (HERE / folder).rglob("*.java"))
        digest = hashlib.sha256(self.release.encode() + bytes([self.java_major]))
        for source in sources:
            digest.update(source.read_bytes())
        classes = CACHE / f"classes-{digest.hexdigest()[:12]}"
        if classes.exists():
            return classes
        fresh = Path(tempfile.mkdtemp(prefix="compiling-", dir=CACHE))
        done = subprocess.run(
            [self.java_home / "bin" / "javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", f"{self.jars}/*",
             "-d", fresh, *sources],
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if done.returncode != 0:
            shutil.rmtree(fresh)
            raise Trouble(f"javac failed:\n{done.stdout}")
        try:
            fresh.rename(classes)
        except OSError:  # another run was first
            shutil.rmtree(fresh)
        return classes

    def command(self, home, main, *args):
        """The command line that runs `main` with the Cassandra home that `write_home` made."""
        flags = ["-Xms256m", "-Xmx2g", "-ea:messina...", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
                 "-Dfile.encoding=UTF-8", "-Djdk.attach.allowAttachSelf=true", "-Dcassandra.jmx.local.port=", "-Duser.timezone=UTC",
                 f"-Dcassandra.config=file://{home}/cassandra.yaml", f"-Dcassandra.storagedir={home}",
                 f"-Dlogback.configurationFile={HERE / 'conf' / 'logback.xml'}", f"-Djava.io.tmpdir={home}/tmp"]
        for agent in self.jars.glob("jamm-*.jar"):  # measures memory; without the agent its guesses fail on Java 17
            flags.append(f"-javaagent:{agent}")
        if self.java_major >= 9:
            for package in EXPORTS:
                flags += ["--add-exports", f"{package}=ALL-UNNAMED"]
            for package in OPENS:
                flags += ["--add-opens", f"{package}=ALL-UNNAMED"]
        if self.java_major >= 12:
            flags.append("-Djava.security.manager=allow")
        classpath = ":".join([str(self.classes), *sorted(str(jar) for jar in self.jars.glob("*.jar"))])
        return [str(self.java_home / "bin" / "java"), *flags, "-cp", classpath, main, *map(str, args)]

    def write_home(self, home, extra=""):
        """An empty Cassandra home: directories and the least configuration that the tools accept, with `extra` lines of it."""
        for name in ["data", "commitlog", "hints", "saved_caches", "cdc_raw", "tmp"]:
            (home / name).mkdir(parents=True)
        (home / "cassandra.yaml").write_text(f"""cluster_name: peers
partitioner: org.apache.cassandra.dht.Murmur3Partitioner
commitlog_sync: periodic
commitlog_sync_period: 10s
commitlog_segment_size: 5MiB
data_file_directories: [ "{home}/data" ]
commitlog_directory: "{home}/commitlog"
hints_directory: "{home}/hints"
saved_caches_directory: "{home}/saved_caches"
cdc_raw_directory: "{home}/cdc_raw"
memtable_allocation_type: heap_buffers
disk_access_mode: standard
endpoint_snitch: SimpleSnitch
seed_provider:
  - class_name: org.apache.cassandra.locator.SimpleSeedProvider
    parameters:
      - seeds: "127.0.0.1"
{extra}""")


def find_java():
    """The home and major version of a JVM between 11 and 17 with a compiler, 17 preferred."""
    homes = [Path(os.environ["PEERS_JAVA_HOME"])] if "PEERS_JAVA_HOME" in os.environ else []
    if not homes:
        if "JAVA_HOME" in os.environ:
            homes.append(Path(os.environ["JAVA_HOME"]))
        if shutil.which("javac"):
            homes.append(Path(shutil.which("javac")).resolve().parent.parent)
        homes += sorted(Path("/usr/lib/jvm").glob("*"), reverse=True)
    seen = []
    for home in homes:
        if not (home / "bin" / "javac").exists():
            continue
        said = subprocess.run([home / "bin" / "java", "-version"], stderr=subprocess.PIPE, text=True).stderr
        version = re.search(r'version "(?:1\.)?(\d+)', said)
        if version:
            seen.append((int(version.group(1)), home))
    for wanted in [17, 11, 16, 15, 14, 13, 12]:
        for major, home in seen:
            if major == wanted:
                return home, major
    raise Trouble(f"no JDK from 11 to 17 found (saw {[f'{m} in {h}' for m, h in seen]}); "
                  "install one (Debian: apt-get install openjdk-17-jdk-headless) or name it in PEERS_JAVA_HOME")


def say(text):
    """A line of progress, apart from results."""
    print(f"peers: {text}", file=sys.stderr, flush=True)
