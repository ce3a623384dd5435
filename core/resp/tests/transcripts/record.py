#!/usr/bin/env python3
"""Writes what a redis-server answers into transcripts: record.py PORT FILE...

The server is one on 127.0.0.1 that has nothing to lose: each file starts with FLUSHALL. See ../transcripts.rs.
"""

import re
import socket
import sys
import time


def read(stream):
    line = stream.readline()
    kind, rest = line[:1], line[1:-2]
    if kind in b"$=" and int(rest) >= 0:
        return line + stream.read(int(rest) + 2)
    count = {b"*": 1, b"~": 1, b">": 1, b"%": 2}.get(kind, 0) * max(0, int(rest) if rest.isdigit() else 0)
    return line + b"".join(read(stream) for _ in range(count))


def shown(reply):
    """As Rust's escape_ascii."""
    special = {9: "\\t", 10: "\\n", 13: "\\r", 34: '\\"', 39: "\\'", 92: "\\\\"}
    one = lambda byte: special.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\x{byte:02x}")
    # What is written for people is not compared.
    return re.sub(r"(notes\\r\\n\$)\d+\\r\\n.*?(?=\\r\\n)", r"\1*", "".join(one(byte) for byte in reply))


def record(port, path):
    stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")

    def ask(line):
        stream.write(line.encode() + b"\n")
        stream.flush()
        return read(stream)

    ask("FLUSHALL")
    out = []
    for line in open(path).read().splitlines():
        if line.startswith("> "):
            out += [line, shown(ask(line[2:]).removesuffix(b"\r\n"))]
        elif line.startswith("! wait "):
            time.sleep(int(line.split()[2]) / 1000)
            out.append(line)
        elif line.startswith("! db "):
            ask("SELECT " + line.split()[2])
            out.append(line)
        elif line.startswith("! resp"):
            ask("HELLO " + line[6:])
            out.append(line)
        elif line == "" or line.startswith("#"):
            out.append(line)
    open(path, "w").write("\n".join(out) + "\n")


for path in sys.argv[2:]:
    record(int(sys.argv[1]), path)
