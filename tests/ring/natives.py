"""Jars that cannot load their native library: each has its own clear error, and the classes that Cassandra loads do not fail.

A small program (java/OptionsOf.java) asks a strategy for its options, as CREATE TABLE does and as a start does, without a node.
"""

import shutil
import subprocess
import tempfile
import zipfile
from pathlib import Path

from cluster import nodes

HERE = Path(__file__).resolve().parent
STUB = "int Java_io_messina_NativeLibrary_callsVersion(void *env, void *type) { return 99; }\n"


def is_native(name):
    return name.startswith("io/messina/native/") and name.endswith(".so")


def changed(jar, to, library):
    """A copy of the jar without its native libraries, or with `library` in the place of each."""
    with zipfile.ZipFile(jar) as old, zipfile.ZipFile(to, "w") as new:
        for name in old.namelist():
            if not is_native(name):
                new.writestr(name, old.read(name))
            elif library is not None:
                new.writestr(name, library)
    return to


def check(report, jar):
    with tempfile.TemporaryDirectory(prefix="natives-") as made:
        home = Path(made)
        tools = nodes.toolchain.Toolchain("5.0")
        tools.write_home(home / "cassandra")
        classpath = f"{tools.jars}/*"
        compiled = subprocess.run([tools.java_home / "bin" / "javac", "-nowarn", "-proc:none", "-cp", f"{jar}:{classpath}", "-d", home, HERE / "java" / "OptionsOf.java"],
                                  stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if compiled.returncode != 0:
            raise nodes.Trouble(f"javac failed:\n{compiled.stdout}")
        (home / "stub.c").write_text(STUB)
        if shutil.which("cc") is None or subprocess.run(["cc", "-shared", "-fPIC", "-o", home / "stub.so", home / "stub.c"]).returncode != 0:
            raise nodes.Trouble("a C compiler is needed for a native library of another version (Debian: apt-get install gcc)")
        stub = (home / "stub.so").read_bytes()

        def ask(which, *flags):
            command = tools.command(home / "cassandra", "OptionsOf")
            at = command.index("-cp")
            command[at + 1] = f"{home}:{which}:{command[at + 1]}"
            command[at:at] = flags
            done = subprocess.run(list(map(str, command)), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            return done.returncode, done.stdout

        for title, which, flags, expected in [
            ("the jar", jar, [], "CREATE: accepted"),
            ("a jar without the native library", changed(jar, home / "without.jar", None), [], "the jar has no io/messina/native/linux-"),
            ("a native library of another version", changed(jar, home / "other.jar", stub), [], "has call version 99"),
            ("a damaged native library", changed(jar, home / "damaged.jar", b"\x7fELF damaged"), [], "could not be loaded"),
            ("an unknown architecture", jar, ["-Dos.arch=riscv64"], "no native library for Linux on riscv64"),
            ("a directory that cannot be written", jar, ["-Djava.io.tmpdir=/proc/nowhere"], "must be writable"),
        ]:
            status, printed = ask(which, *flags)
            is_good = status == 0 and "START: loaded" in printed and expected in printed
            report.check(f"{title}: {expected}", is_good, printed[-1500:])
