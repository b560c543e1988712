#!/usr/bin/env python3
"""Compares two JSON documents by meaning: sstabledump's export of an SSTable with what was predicted, say.

Keys of an object may come in any order, elements of an array may not; a number never equals a string, true never equals 1. Numbers
are compared exactly, digit for digit of their value (1.0 equals 1 and 1E1 equals 10). Prints where the documents part, up to a limit.
Given two directories, compares each <folder>/<name>.json of one with that of the other.
The exit status is 0 if they are equal, 1 if not, 2 if one could not be read.
"""

import argparse
import json
import struct
import sys
from decimal import Decimal
from pathlib import Path


class NotComparable(Exception):
    """A document that is not JSON, or has the same key twice in an object."""


def load(path):
    """The document in the file, numbers as Decimal so that none loses a digit."""
    def unique(pairs):
        found = dict(pairs)
        if len(found) != len(pairs):
            raise NotComparable(f"{path}: a key occurs twice in one object: {[key for key, _ in pairs]}")
        return found

    def constant(text):
        raise NotComparable(f"{path}: {text} is not JSON")

    try:
        with open(path, encoding="utf-8") as file:
            return json.load(file, parse_int=Decimal, parse_float=Decimal, parse_constant=constant, object_pairs_hook=unique)
    except (OSError, ValueError) as error:
        raise NotComparable(f"{path}: {error}") from error


def differences(left, right, ignore=frozenset(), same_number=Decimal.__eq__, path="$"):
    """Yields (path, left, right) for every place where the documents part; keys in `ignore` are passed over at any depth."""
    if isinstance(left, dict) and isinstance(right, dict):
        for key in [*left, *(key for key in right if key not in left)]:
            if key in ignore:
                continue
            here = f"{path}.{key}"
            if key not in right:
                yield here, left[key], MISSING
            elif key not in left:
                yield here, MISSING, right[key]
            else:
                yield from differences(left[key], right[key], ignore, same_number, here)
    elif isinstance(left, list) and isinstance(right, list):
        for index in range(max(len(left), len(right))):
            here = f"{path}[{index}]"
            if index >= len(right):
                yield here, left[index], MISSING
            elif index >= len(left):
                yield here, MISSING, right[index]
            else:
                yield from differences(left[index], right[index], ignore, same_number, here)
    elif isinstance(left, Decimal) and isinstance(right, Decimal):
        if not same_number(left, right):
            yield path, left, right
    elif type(left) is not type(right) or left != right:
        yield path, left, right


class Missing:
    """Stands for what one side does not have."""


MISSING = Missing()


def as_binary64(left, right):
    """Whether both texts are the same double: Java before 19 does not always print the shortest."""
    return left == right or float(left) == float(right)


def as_binary32(left, right):
    """The same for floats."""
    def rounded(number):
        try:
            return struct.pack("<f", float(number))
        except OverflowError:
            return number
    return left == right or rounded(left) == rounded(right)


def show(value):
    if value is MISSING:
        return "nothing"
    if isinstance(value, Decimal):
        return str(value)
    text = json.dumps(value, default=str, ensure_ascii=False)
    return text if len(text) <= 300 else text[:300] + "..."


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    parser.add_argument("left")
    parser.add_argument("right")
    parser.add_argument("--ignore", action="append", default=[], metavar="KEY",
                        help="pass over this key in every object; sstabledump's `position` and `expired`, say")
    parser.add_argument("--limit", type=int, default=20, help="how many differences to print (default: %(default)s)")
    width = parser.add_mutually_exclusive_group()
    width.add_argument("--doubles", action="store_true", help="numbers that are the same double are equal")
    width.add_argument("--floats", action="store_true", help="numbers that are the same float are equal")
    options = parser.parse_args()
    same_number = as_binary64 if options.doubles else as_binary32 if options.floats else Decimal.__eq__
    try:
        documents = pairs(Path(options.left), Path(options.right))
        equal = [compare(left, right, frozenset(options.ignore), same_number, options.limit) for left, right in documents]
    except NotComparable as error:
        print(error, file=sys.stderr)
        return 2
    return 0 if all(equal) else 1


def pairs(left, right):
    """The documents to compare: the two files, or those of the same name in two directories."""
    if not left.is_dir():
        return [(left, right)]
    found = [{path.relative_to(side) for path in side.glob("*/*.json")} for side in (left, right)]
    if not any(found):
        raise NotComparable(f"{left}, {right}: neither has a <folder>/<name>.json")
    if found[0] != found[1]:
        raise NotComparable("\n".join(f"{side}: lacks {name}, which {other} has" for side, other, names in
                                      [(right, left, found[0] - found[1]), (left, right, found[1] - found[0])] for name in sorted(names)))
    return [(left / name, right / name) for name in sorted(found[0])]


def compare(left, right, ignore, same_number, limit=20):
    """Prints where two documents part; returns whether they do not."""
    count = 0
    for path, ours, theirs in differences(load(left), load(right), ignore, same_number):
        count += 1
        if count == 1:
            print(f"{left} and {right} differ:")
        if count <= limit:
            print(f"    {path}: {show(ours)}  !=  {show(theirs)}")
    if count > limit:
        print(f"    ... and {count - limit} more")
    return count == 0


if __name__ == "__main__":
    sys.exit(main())
