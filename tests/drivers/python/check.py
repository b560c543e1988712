#!/usr/bin/env python3
"""The checks of a Python driver (cassandra-driver or scylla-driver, whichever is installed) at one protocol version and compression.

    check.py --contact HOST:PORT --protocol 5 --compression lz4 [--shard-aware-port PORT] [NAME...]

The last line is `N passed, N failed`; exit status 1 if one failed.
"""

import argparse
import sys

import cassandra
import harness
import data_checks  # noqa: F401  (importing registers the checks)
import protocol_checks  # noqa: F401
import schema_checks  # noqa: F401
import statement_checks  # noqa: F401
import type_checks  # noqa: F401


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("--contact", default="127.0.0.1:9042", metavar="HOST:PORT")
    parser.add_argument("--protocol", type=int, default=5, choices=[3, 4, 5])
    parser.add_argument("--compression", choices=["none", "lz4", "snappy"], default="none")
    parser.add_argument("--shard-aware-port", type=int, help="also check that a Scylla driver connects to each shard by this port")
    parser.add_argument("names", nargs="*", help="only checks whose name has one of these words")
    options = parser.parse_args()
    host, port = options.contact.rsplit(":", 1)
    compression = None if options.compression == "none" else options.compression
    label = f"python v{options.protocol} {options.compression}"
    print(f"driver {cassandra.__version__}", flush=True)
    context = harness.Context(host, int(port), options.protocol, compression, f"py_v{options.protocol}_{options.compression}")
    context.shard_aware_port = options.shard_aware_port
    passed, failed = harness.run_all(context, label, options.names)
    try:
        context.close()
    except Exception as error:  # noqa: BLE001
        print(f"FAIL {label} close: {type(error).__name__}: {error}")
        failed += 1
    print(f"{passed} passed, {failed} failed")
    sys.exit(1 if failed or not passed else 0)


if __name__ == "__main__":
    main()
