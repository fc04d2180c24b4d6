#!/usr/bin/env python3
"""The same query as a DataFusion batch: the practical limit, and a second opinion on the answers.

  batch.py run   CASE --data DIR --rows N                  measures; prints one JSON line
  batch.py check CASE --data DIR --rows N --written DIR    compares with the files a job wrote

`run` reads with two partitions, hands every result batch over and drops it. `check` prints what it
compared and fails with the first rows that differ. The rows of generated cases are made by
DataFusion itself in `run`; in `check` they are the files that a job of the same generator wrote.
"""
import argparse
import json
import os
import resource
import sys
import threading
import time

import pyarrow as pa
from datafusion import RuntimeEnvBuilder, SessionConfig, SessionContext

BID = pa.schema([
    ("auction", pa.int64()), ("bidder", pa.int64()), ("price", pa.int64()), ("channel", pa.utf8()),
    ("url", pa.utf8()), ("dateTime", pa.timestamp("ms")), ("extra", pa.utf8())])
GENERATED = pa.schema([("k", pa.int64()), ("v", pa.int64())])
MAX_KEY, MAX_VALUE = 999_999, 100

QUERIES = {
    "q0": 'SELECT auction, bidder, price, "dateTime", extra FROM input',
    "q1": 'SELECT auction, bidder, CAST(0.908 AS DECIMAL(3, 3)) * CAST(price AS DECIMAL(20, 0)) AS price,'
          ' "dateTime", extra FROM input',
    "q2": "SELECT auction, price FROM input WHERE auction % 123 = 0",
    "word-count": "SELECT word, count(*) AS n FROM"
                  " (SELECT unnest(string_to_array(line, ' ')) AS word FROM input) GROUP BY word",
    "keyed-sum": "SELECT k, count(*) AS n, sum(v) AS total FROM input GROUP BY k",
    "pass-through": "SELECT k, v FROM input",
}
# What a job of ours writes, and the query's columns in the form to compare them in.
WRITTEN = {
    "q0": pa.schema([BID.field("auction"), BID.field("bidder"), BID.field("price"), ("dateTime", pa.utf8()),
                     ("extra", pa.utf8())]),
    "q1": pa.schema([BID.field("auction"), BID.field("bidder"), ("price", pa.decimal128(38, 3)), ("dateTime", pa.utf8()),
                     ("extra", pa.utf8())]),
    "q2": pa.schema([BID.field("auction"), BID.field("price")]),
    "word-count": pa.schema([("word", pa.utf8()), ("n", pa.int64())]),
    "keyed-sum": pa.schema([("k", pa.int64()), ("n", pa.int64()), ("total", pa.int64())]),
    "pass-through": GENERATED,
}


def context():
    return SessionContext(SessionConfig().with_target_partitions(2), RuntimeEnvBuilder())


def files(folder, ending):
    found = sorted(os.path.join(at, name) for at, _, names in os.walk(folder) for name in names
                   if name.endswith(ending) and not name.startswith("."))
    if not found:
        sys.exit("no file ends in %s below %s" % (ending, folder))
    return found


def register(ctx, case, data, rows):
    if case.startswith("q"):
        ctx.register_json("input", os.path.join(data, "bid"), schema=BID, file_extension=".json")
    elif case == "word-count":
        # One column, and a delimiter that no line holds.
        ctx.register_csv("input", os.path.join(data, "lines"), schema=pa.schema([("line", pa.utf8())]),
                         has_header=False, delimiter="\x01", file_extension=".txt")
    elif data:
        ctx.register_json("input", data, schema=GENERATED, file_extension=".jsonl")
    else:
        ctx.sql("CREATE VIEW input AS SELECT CAST(random() * %d AS BIGINT) AS k, CAST(random() * %d AS BIGINT)"
                " AS v FROM generate_series(1, %d)" % (MAX_KEY, MAX_VALUE, rows))


def peak_memory(stop, peak):
    while not stop.wait(0.2):
        with open("/proc/self/status") as status:
            rss = next(int(line.split()[1]) for line in status if line.startswith("VmRSS:"))
        peak[0] = max(peak[0], rss // 1024)


def run(case, data, rows):
    ctx = context()
    register(ctx, case, data, rows)
    stop, peak = threading.Event(), [0]
    watcher = threading.Thread(target=peak_memory, args=(stop, peak))
    watcher.start()
    begun, before = time.time(), resource.getrusage(resource.RUSAGE_SELF)
    n_out = 0
    for stream in ctx.sql(QUERIES[case]).execute_stream_partitioned():
        for batch in stream:
            n_out += batch.to_pyarrow().num_rows
    after = resource.getrusage(resource.RUSAGE_SELF)
    seconds = time.time() - begun
    stop.set()
    watcher.join()
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    print(json.dumps({"rows": rows, "rows_out": n_out, "seconds": round(seconds, 2), "cpu_seconds": round(cpu, 2),
                      "peak_rss_mib": peak[0]}))


def empty(ctx, what, query):
    rows = ctx.sql(query + " LIMIT 5").to_pylist()
    if rows:
        sys.exit("%s:\n%s" % (what, "\n".join(map(str, rows))))


def count(ctx, query):
    return ctx.sql("SELECT count(*) AS n FROM (%s)" % query).to_pylist()[0]["n"]


def check(case, data, rows, written):
    ctx = context()
    files(written, ".jsonl")
    register(ctx, case, data, rows)
    ctx.register_json("written", written, schema=WRITTEN[case], file_extension=".jsonl")
    expected, got = QUERIES[case], "SELECT * FROM written"
    if case in ("q0", "q1"):
        # Fractions of seconds and scales are written in more than one way; values are compared.
        expected = 'SELECT auction, bidder, CAST(price AS DECIMAL(23, 3)) AS price, CAST("dateTime" AS TIMESTAMP)' \
                   ' AS at, extra FROM (%s)' % expected
        got = 'SELECT auction, bidder, CAST(price AS DECIMAL(23, 3)) AS price, CAST("dateTime" AS TIMESTAMP) AS at,' \
              ' extra FROM written'
    if case in ("word-count", "keyed-sum"):
        key = "word" if case == "word-count" else "k"
        n_inputs = count(ctx, "SELECT unnest(string_to_array(line, ' ')) FROM input" if case == "word-count"
                         else "SELECT k FROM input")
        if n_inputs != count(ctx, "SELECT n FROM written"):
            sys.exit("%d rows went in, %d updates came out" % (n_inputs, count(ctx, "SELECT n FROM written")))
        empty(ctx, "updates that are not 1, 2, 3, ... once each",
              "SELECT %s, count(*), count(DISTINCT n), min(n), max(n) FROM written GROUP BY %s HAVING count(*) <> max(n)"
              " OR count(DISTINCT n) <> max(n) OR min(n) <> 1" % (key, key))
        # The last update of each key is what a batch computes.
        got = "SELECT w.* FROM written w JOIN (SELECT %s AS key, max(n) AS last FROM written GROUP BY %s) l" \
              " ON w.%s = l.key AND w.n = l.last" % (key, key, key)
    if case == "pass-through":
        # These rows are the input of the other generated case; their number and range are what is known.
        n = count(ctx, got)
        if n != rows:
            sys.exit("%d rows, not %d" % (n, rows))
        empty(ctx, "values out of range",
              "SELECT * FROM written WHERE k < 0 OR k > %d OR v < 0 OR v > %d" % (MAX_KEY, MAX_VALUE))
        print("%d rows, all in range" % n)
        return
    empty(ctx, "missing in what the job wrote", "(%s) EXCEPT ALL (%s)" % (expected, got))
    empty(ctx, "written, but not in the answer", "(%s) EXCEPT ALL (%s)" % (got, expected))
    print("%d rows, equal to DataFusion's" % count(ctx, expected))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("verb", choices=["run", "check"])
    parser.add_argument("case", choices=sorted(QUERIES))
    parser.add_argument("--data", default="")
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--written")
    a = parser.parse_args()
    if a.verb == "run":
        run(a.case, a.data, a.rows)
    else:
        check(a.case, a.data, a.rows, a.written)


if __name__ == "__main__":
    main()
