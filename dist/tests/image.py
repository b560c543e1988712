#!/usr/bin/env python3
"""Runs what the last stage of the Dockerfile starts, without a builder: `dist/tests/image.py PROGRAM`. Needs root.

The variables, the user, the entry point and the health check are read from the Dockerfile. The program runs with them below a
temporary directory as that user, by chroot, with glibc copied from this machine as the only other files.
"""

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

DOCKERFILE = Path(__file__).resolve().parent.parent / "docker" / "Dockerfile"
PORTS = {"MESSINA_NATIVE_TRANSPORT_PORT": "19742", "MESSINA_API_PORT": "19743", "MESSINA_PROMETHEUS_PORT": "0", "MESSINA_NATIVE_SHARD_AWARE_TRANSPORT_PORT": "0"}


def stage():
    """The instructions of the last stage, by name."""
    text = DOCKERFILE.read_text().split("\nFROM ")[-1]
    found = {}
    for line in text.splitlines()[1:]:
        name, _, value = line.partition(" ")
        if name.isupper():
            found.setdefault(name, []).append(value)
    return found


def main():
    program = Path(sys.argv[1]).resolve()
    wanted = stage()
    variables = dict(pair.split("=", 1) for line in wanted["ENV"] for pair in shlex.split(line))
    user = int(wanted["USER"][0].split(":")[0])
    assert user != 0, "the image must not run as root"
    command = json.loads(wanted["ENTRYPOINT"][0]) + json.loads(wanted["CMD"][0])
    check = json.loads(wanted["HEALTHCHECK"][0].split("CMD ", 1)[1])
    root = Path(tempfile.mkdtemp(prefix="image-"))
    node = None
    try:
        for library in re.findall(r"(/\S+) \(0x", subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout):
            (root / library[1:]).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(library, root / library[1:])
        (root / "usr/bin").mkdir(parents=True)
        shutil.copy(program, root / "usr/bin/messina")
        for name in ("tmp", "proc", "dev", "etc"):
            (root / name).mkdir(exist_ok=True)
        os.chmod(root, 0o755)
        os.chmod(root / "tmp", 0o1777)
        data = root / wanted["VOLUME"][0][1:]
        data.mkdir(parents=True)
        os.chown(data, user, user)
        data.chmod(0o700)

        def inside():
            os.chroot(root)
            os.chdir(wanted["WORKDIR"][0])
            os.setgroups([])
            os.setgid(user)
            os.setuid(user)

        def run(words, **more):
            return subprocess.Popen(words, env={**variables, **PORTS, "MESSINA_PORT": PORTS["MESSINA_NATIVE_TRANSPORT_PORT"]}, preexec_fn=inside, stdin=subprocess.DEVNULL, **more)

        with (root / "log").open("wb") as log:
            node = run(command, stdout=log, stderr=log)
        begin = time.monotonic()
        while run(check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() != 0:
            if node.poll() is not None or time.monotonic() - begin > 60:
                sys.exit(f"FAIL image: not healthy\n{(root / 'log').read_text()[-2000:]}")
            time.sleep(0.1)
        healthy_s = time.monotonic() - begin
        assert any((data / "commitlog").iterdir()), "the data are not in the volume"
        node.send_signal(getattr(signal, wanted["STOPSIGNAL"][0]))
        assert node.wait(60) == 0, f"it ended with {node.returncode}"
        assert run(check, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL).wait() != 0, "a stopped node is healthy"
        print(f"PASS image: healthy after {healthy_s:.1f} s as user {user}, stopped by {wanted['STOPSIGNAL'][0]}")
    finally:
        if node and node.poll() is None:
            node.kill()
            node.wait()
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
