#!/usr/bin/env python3
"""Ordinary drivers against a server: Python (protocol 3, 4 and 5, with and without compression), cqlsh, Java, gocql, Rust.

    tests/drivers/run.sh                          builds `messina`, starts it on free ports with an empty directory, runs everything
    tests/drivers/run.sh --contact HOST:PORT      against a server that runs already
    tests/drivers/run.sh --peer                   against a real Apache Cassandra 5.0: judges the checks themselves
    tests/drivers/run.sh python-v5-lz4 cqlsh      only runs whose name has one of these words

Each check prints PASS or FAIL; the last line is `N passed, N failed`. Exit status 0 if nothing failed, 2 if the harness had trouble.
"""

import argparse
import os
import re
import subprocess
import sys
import time

import nodes
import setup

HERE = nodes.HERE
SMP = 2

#: Checks that a version's other compressions may fail; the rest of the suite runs once a version.
FRAMING = ["version_and_compression", "large_frames", "types_by_prepared", "paging_of_a_partition", "batches", "errors_by_class", "many_requests"]


def runs(contact, shard_aware_port, profile):
    """name → how to make the command; made when its turn comes, so that what is not asked for is not fetched."""
    commands = {}
    for protocol, compression, words in [(3, "lz4", []), (4, "none", []), (5, "lz4", []), (3, "none", FRAMING), (4, "snappy", FRAMING), (5, "none", FRAMING)]:
        commands[f"python-v{protocol}-{compression}"] = lambda p=protocol, c=compression, w=words: [
            setup.python("cassandra"), HERE / "python" / "check.py", "--contact", contact, "--protocol", p, "--compression", c, *w]
    aware = ["--shard-aware-port", shard_aware_port] if shard_aware_port else []
    commands["python-scylla"] = lambda: [setup.python("scylla"), HERE / "python" / "check.py", "--contact", contact, "--protocol", 4, "--compression", "lz4", *aware]
    commands["cqlsh"] = lambda: [sys.executable, HERE / "cqlsh_checks.py", contact, *setup.cqlsh()]
    if profile:
        commands["copy"] = lambda: [sys.executable, HERE / "copy_checks.py", contact, nodes.build_messina(profile), *setup.cqlsh()]
        commands["login"] = lambda: [setup.python("cassandra"), HERE / "python" / "login.py", profile, *setup.cqlsh()]
    for protocol, compression in [("V3", "none"), ("V4", "snappy"), ("V5", "lz4")]:
        commands[f"java-{protocol.lower()}-{compression}"] = lambda p=protocol, c=compression: [*setup.java(), "check", contact, p, c]
    for protocol, compression in [(3, "snappy"), (4, "lz4"), (5, "lz4"), (5, "none")]:
        commands[f"gocql-v{protocol}-{compression}"] = lambda p=protocol, c=compression: [*setup.go(), "check", contact, p, c]
    for compression in ["none", "lz4", "snappy"]:
        commands[f"rust-{compression}"] = lambda c=compression: [*setup.rust(), "check", contact, c, *([SMP] if shard_aware_port else [])]
    return commands


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--contact", metavar="HOST:PORT")
    parser.add_argument("--peer", action="store_true")
    parser.add_argument("--profile", default="release", help="cargo's profile of the server (default: %(default)s)")
    parser.add_argument("only", nargs="*")
    options = parser.parse_args()
    node = None
    try:
        # Only a server of this tree is started once more, with passwords.
        profile = None if options.contact or options.peer else options.profile
        if options.contact:
            contact, shard_aware_port = options.contact, None
        else:
            node = nodes.Cassandra() if options.peer else nodes.Messina(flags=["--smp", str(SMP)], profile=options.profile)
            setup.say(f"{node.name} is ready after {node.start():.2f} s")
            contact, shard_aware_port = f"{nodes.HOST}:{node.port}", getattr(node, "shard_aware_port", None)
        return judge(runs(contact, shard_aware_port, profile), options.only, node)
    except (nodes.Trouble, nodes.toolchain.Trouble) as trouble:
        print(f"drivers: {trouble}", file=sys.stderr)
        return 2
    finally:
        if node:
            node.remove()


def judge(commands, only, node):
    passed = failed = 0
    for name, make in commands.items():
        if only and not any(word in name for word in only):
            continue
        command = list(map(str, make()))
        begin = time.monotonic()
        try:
            done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=600,
                                  env=dict(os.environ, PYTHONDONTWRITEBYTECODE="1"))
            output, status = done.stdout, done.returncode
        except subprocess.TimeoutExpired as slow:
            output, status = (slow.stdout or b"").decode(errors="replace"), "time-out after 600 s"
        print(output, end="", flush=True)
        counted = re.findall(r"^(\d+) passed, (\d+) failed$", output, re.M)
        if counted:
            passed += int(counted[-1][0])
            failed += int(counted[-1][1])
        if not counted or (status != 0) != (counted[-1][1] != "0"):
            print(f"FAIL {name}: ended with {status} and no verdict")
            failed += 1
        print(f"=== {name}: {time.monotonic() - begin:.1f} s", flush=True)
        if node and not node.running():
            print(f"FAIL {name}: the server ended with {node.process.returncode}:\n{node.tail()}")
            failed += 1
            break
    if isinstance(node, nodes.Messina) and node.running():
        status = node.stop()
        print(f"{'PASS' if status == 0 else 'FAIL'} the server stops on SIGTERM (exit status {status})")
        passed, failed = passed + (status == 0), failed + (status != 0)
    print(f"{passed} passed, {failed} failed")
    return 1 if failed or not passed else 0


if __name__ == "__main__":
    sys.exit(main())
