"""Gets the drivers, by package name and at pinned versions, and builds the programs that use them.

Everything stays in `.cache/drivers/` at the root of the repository (the Rust program in cargo's target directory), so a second run needs
no network. What the machine lacks (Python's venv, Maven, a JDK, Go) is installed by Debian's package name; nothing is left out.
"""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from nodes import HERE, REPO, Trouble, toolchain

CACHE = REPO / ".cache" / "drivers"


def python(driver):
    """The interpreter of a virtual environment with this driver: "cassandra" (and cqlsh) or "scylla"."""
    wanted = HERE / "python" / f"requirements-{driver}.txt"
    home = CACHE / f"python-{driver}-{digest(wanted)}"
    if not (home / "complete").exists():
        shutil.rmtree(home, ignore_errors=True)
        if subprocess.run([sys.executable, "-c", "import ensurepip"], capture_output=True).returncode != 0:
            install("python3-venv")
        say(f"fetching Python packages of {wanted.name}")
        run([sys.executable, "-m", "venv", home])
        run([home / "bin" / "pip", "install", "-q", "--disable-pip-version-check", "--prefer-binary", "-r", wanted])
        (home / "complete").touch()
    return home / "bin" / "python"


def cqlsh():
    """The command line of cqlsh."""
    return [python("cassandra"), python("cassandra").parent / "cqlsh"]


def java():
    """The command line of the Java program, up to its arguments."""
    need("mvn", "maven")
    try:
        home, _ = toolchain.find_java()
    except toolchain.Trouble:
        install("openjdk-17-jdk-headless")
        home, _ = toolchain.find_java()
    pom = HERE / "java" / "pom.xml"
    jars = CACHE / f"java-{digest(pom)}"
    if not (jars / "complete").exists():
        say("fetching the Java driver through Maven")
        run(["mvn", "-B", "-q", "-f", pom, "dependency:copy-dependencies", "-DincludeScope=runtime", f"-DoutputDirectory={jars}"],
            JAVA_HOME=str(home))
        (jars / "complete").touch()
    sources = sorted((HERE / "java").glob("*.java"))
    classes = CACHE / f"java-classes-{digest(pom, *sources)}"
    if not classes.exists():
        fresh = CACHE / f"java-compiling-{os.getpid()}"
        run([home / "bin" / "javac", "-nowarn", "-proc:none", "-encoding", "UTF-8", "-cp", f"{jars}/*", "-d", fresh, *sources])
        fresh.rename(classes)
    return [home / "bin" / "java", "-Xmx512m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-Dfile.encoding=UTF-8", "-Duser.timezone=UTC",
            "-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "-cp", f"{classes}:{jars}/*", "DriverCheck"]


def go():
    """The Go program."""
    need_go()
    sources = sorted((HERE / "go").glob("*"))
    binary = CACHE / f"go-{digest(*sources)}"
    if not binary.exists():
        say("building the Go program")
        run(["go", "build", "-o", binary, "."], cwd=HERE / "go", GOTOOLCHAIN="local", GOFLAGS="-mod=readonly")
    return [binary]


def rust():
    """The Rust program. Its target directory is inside cargo's own, so that CI keeps one."""
    say("building the Rust program")
    target = Path(os.environ.get("CARGO_TARGET_DIR", REPO / "target")).resolve() / "drivers"
    run(["cargo", "build", "-q", "--locked"], cwd=HERE / "rust", CARGO_TARGET_DIR=str(target))
    return [target / "debug" / "drivers-check"]


def need_go():
    """Go that is new enough for gocql, on the path."""
    wanted = tuple(map(int, re.search(r"^go (\d+)\.(\d+)", (HERE / "go" / "go.mod").read_text(), re.M).groups()))
    for attempt in range(2):
        program = shutil.which("go") or shutil.which("go", path="/usr/local/go/bin")
        said = program and subprocess.run([program, "version"], stdout=subprocess.PIPE, text=True, env=dict(os.environ, GOTOOLCHAIN="local")).stdout
        found = said and re.search(r"go(\d+)\.(\d+)", said)
        if found and tuple(map(int, found.groups())) >= wanted:
            os.environ["PATH"] = f"{Path(program).parent}:{os.environ['PATH']}"
            return
        if attempt == 0:
            install("golang-go")
    raise Trouble(f"Go {wanted[0]}.{wanted[1]} or newer is needed")


def need(program, package):
    if shutil.which(program) is None:
        install(package)


def install(package):
    """Installs one of Debian's packages, as root or by sudo."""
    if shutil.which("apt-get") is None:
        raise Trouble(f"{package} is missing and there is no apt-get; install what this system calls it")
    update_index()
    say(f"installing {package}")
    run([*as_root(), "env", "DEBIAN_FRONTEND=noninteractive", "apt-get", "install", "-y", "-qq", "--no-install-recommends", package])


def update_index():
    """Debian's package index, as it is now."""
    run([*as_root(), "apt-get", "update", "-qq"])


def as_root():
    return [] if os.geteuid() == 0 else ["sudo"]


def run(command, cwd=None, **environment):
    done = subprocess.run(list(map(str, command)), cwd=cwd, env=dict(os.environ, **environment), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise Trouble(f"{' '.join(map(str, command))}\nended with {done.returncode}:\n{done.stdout[-4000:]}")


def digest(*files):
    total = hashlib.sha256()
    for file in files:
        total.update(file.name.encode() + b"\0" + file.read_bytes())
    return total.hexdigest()[:12]


def say(text):
    """A line of progress, apart from results."""
    print(f"drivers: {text}", file=sys.stderr, flush=True)
