"""A node as a process of its own, with data in memory unless a directory is given, on free ports of 127.0.0.1."""

import atexit
import os
import shutil
import socket
import subprocess
import sysconfig
import tempfile
import time
from pathlib import Path


class NodeError(Exception):
    """A node did not start; the text has the end of its log."""


def program():
    """The path of the program `messina`: MESSINA_PROGRAM, or that of this wheel, or the one on the path."""
    candidates = [os.environ.get("MESSINA_PROGRAM"), Path(sysconfig.get_path("scripts")) / "messina"]
    if "posix_user" in sysconfig.get_scheme_names():
        candidates.append(Path(sysconfig.get_path("scripts", "posix_user")) / "messina")
    candidates.append(shutil.which("messina"))
    for candidate in candidates:
        if candidate and os.access(candidate, os.X_OK):
            return str(candidate)
    raise NodeError("there is no program `messina`: pip install messina, or set MESSINA_PROGRAM")


class Node:
    """A running node. `contact_point` and `port` are for drivers, `api_port` for nodetool."""

    def __init__(self, data_dir=None, options=None, ready_within_s=60):
        self.contact_point = "127.0.0.1"
        self.data_dir = data_dir
        self.options = dict(options or {})
        self.ready_within_s = ready_within_s
        self.process = None
        self.port = self.api_port = None
        self._home = None

    def start(self):
        """Starts the node and returns it when clients can connect."""
        self._home = Path(tempfile.mkdtemp(prefix="messina-"))
        # Another program may take a free port before the node does.
        for attempt in range(5):
            try:
                self._start_once()
            except NodeError as error:
                if attempt == 4 or "another process listens there" not in str(error):
                    self.stop()
                    raise
            else:
                atexit.register(self.stop)
                return self
        return self

    def _start_once(self):
        self.port, self.api_port = _free_ports(2)
        command = [program(), "serve", "--listen-address", self.contact_point, "--native-transport-port", str(self.port), "--api-port", str(self.api_port)]
        # One shard unless more are wanted: many nodes of tests run at the same time.
        settings = {"native_shard_aware_transport_port": 0, "prometheus_port": 0, "smp": 1, **self.options}
        for name, value in settings.items():
            command += ["--set", f"{name}={str(value).lower() if isinstance(value, bool) else value}"]
        command += ["--data-dir", str(self.data_dir)] if self.data_dir else ["--in-memory"]
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify, (self._home / "log").open("ab") as log:
            path = self._home / f"notify-{self.port}"
            notify.bind(str(path))
            notify.settimeout(0.05)
            environment = {name: value for name, value in os.environ.items() if not name.startswith(("MESSINA_", "WATCHDOG_"))}
            environment["NOTIFY_SOCKET"] = str(path)
            self.process = subprocess.Popen(command, cwd=self._home, env=environment, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
            deadline = time.monotonic() + self.ready_within_s
            while time.monotonic() < deadline:
                try:
                    if notify.recv(4096).startswith(b"READY=1"):
                        return
                except socket.timeout:
                    pass
                if self.process.poll() is not None:
                    raise NodeError(f"the node ended with {self.process.returncode}:\n{self.log()[-3000:]}")
        self.process.kill()
        self.process.wait()
        raise NodeError(f"the node was not ready within {self.ready_within_s} s:\n{self.log()[-3000:]}")

    def stop(self, within_s=30):
        """Stops the node and removes what it kept in memory."""
        atexit.unregister(self.stop)
        if self.process and self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(within_s)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        if self._home:
            shutil.rmtree(self._home, ignore_errors=True)

    def log(self):
        """What the node has logged."""
        return (self._home / "log").read_text(errors="replace") if self._home and (self._home / "log").exists() else ""

    def cql(self, statements):
        """Runs statements by `messina shell`; gives what it prints. Needs no driver."""
        done = subprocess.run([program(), "shell", self.contact_point, str(self.port), "-e", statements], stdin=subprocess.DEVNULL, capture_output=True, text=True)
        if done.returncode:
            raise NodeError(done.stderr.strip())
        return done.stdout

    def __enter__(self):
        return self.start()

    def __exit__(self, *_):
        self.stop()


def node(data_dir=None, options=None, ready_within_s=60):
    """A node for a `with` statement. `options` are those of messina.yaml, by name."""
    return Node(data_dir, options, ready_within_s)


def _free_ports(count):
    sockets = [socket.socket() for _ in range(count)]
    try:
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
    finally:
        for one in sockets:
            one.close()
