#!/usr/bin/env python3
"""Runs SQL jobs on the cluster of cluster.sh and measures them. Use with the venv's python:

    . ./env.sh && "$FLINK_VENV/bin/python" bench.py COMMAND [options]

  run QUERY...   bounded jobs to their end      --backend rocksdb,hashmap --reps 3 [--events N] [--set K=V] [--var K=V]
  bigstate       checkpoints of growing state, then TaskManager loss   [--heartbeat 5s]
  backpressure   aligned and unaligned checkpoints of a slow job
  latency        cold start, submission, idle memory
  summary        medians of the results so far, as a table
Each result is one JSON line in $BENCH_RUN/results.jsonl.
"""
import argparse, json, os, re, statistics, string, subprocess, sys, threading, time, urllib.request

HERE = os.path.dirname(os.path.abspath(__file__))
RUN = os.environ["BENCH_RUN"]
BASE = "http://localhost:%s" % os.environ.get("REST_PORT", "18081")
TICK = os.sysconf("SC_CLK_TCK")
CORES = os.cpu_count()
LIMIT = float(os.environ.get("JOB_LIMIT_S", "240"))  # a job still running after this is cancelled
# What each query reads, for events/s: data set folder and number of events.
NX = {"person": 108696, "auction": 326088, "bid": 5000016}
PA = {"person": 1086960, "auction": 3260880}
QUERIES = {"wordcount": ("wc", 10_000_000)}
QUERIES.update({q: ("nx", NX["bid"]) for q in ("q0", "q1", "q2", "q5", "q7", "q7w", "q11", "q12")})
QUERIES["q4"] = ("nx", NX["bid"] + NX["auction"])
QUERIES.update({q: ("pa", sum(PA.values())) for q in ("q3", "q8")})
# PyFlink's client reads no conf directory of ours, so every job carries its settings (the cluster's
# own conf has the same ones). Without execution.target it would run in a MiniCluster of its own.
JOB_CONF = {
    "execution.target": "remote", "rest.address": "localhost",
    "rest.port": os.environ.get("REST_PORT", "18081"),
    "parallelism.default": os.environ.get("SLOTS", "2"), "pipeline.object-reuse": "true",
    "state.backend.type": "rocksdb", "execution.checkpointing.incremental": "true",
    "execution.checkpointing.interval": "5s", "execution.checkpointing.mode": "EXACTLY_ONCE",
    "execution.checkpointing.dir": "file://%s/ckpt" % RUN,
}


def rest(path, data=None, method=None):
    req = urllib.request.Request(BASE + path, method=method,
                                 data=None if data is None else json.dumps(data).encode(),
                                 headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(req, timeout=30) as r:
        body = r.read()
    return json.loads(body) if body else {}


def try_rest(path):
    try:
        return rest(path)
    except Exception:
        return None


def cpu(pid):
    """CPU seconds (user + system) that the process has used."""
    with open("/proc/%d/stat" % pid) as f:
        p = f.read().rsplit(")", 1)[1].split()
    return (int(p[11]) + int(p[12])) / TICK


def machine_busy():
    p = [int(x) for x in open("/proc/stat").readline().split()[1:]]
    return (sum(p[:3]) + sum(p[5:8])) / TICK  # all but idle and iowait


def rss_mb(pid, key="VmRSS"):
    for l in open("/proc/%d/status" % pid):
        if l.startswith(key + ":"):
            return int(l.split()[1]) // 1024
    return 0


def load():
    return float(open("/proc/loadavg").read().split()[0])


def sh(*args):
    return subprocess.run([os.path.join(HERE, "cluster.sh"), *args], check=True, text=True,
                          capture_output=True).stdout


def pids():
    m = re.match(r"jm=(\d*) tm=(\d*)", sh("pids").strip())
    return tuple(int(x) if x else 0 for x in m.groups())


def wait_for(cond, timeout=120, step=0.05, what="condition"):
    end = time.time() + timeout
    while time.time() < end:
        v = cond()
        if v:
            return v
        time.sleep(step)
    raise TimeoutError(what)


def cluster_up(slots=None):
    slots = slots or int(os.environ.get("SLOTS", "2"))
    wait_for(lambda: (try_rest("/overview") or {}).get("slots-available", 0) >= slots, what="slots")


def start_cluster(*conf):
    sh("start", *conf)
    cluster_up()


def stop_cluster():
    sh("stop")


def record(kind, **kw):
    kw = {"kind": kind, "at": time.strftime("%H:%M:%S"), **kw}
    with open(os.path.join(RUN, "results.jsonl"), "a") as f:
        f.write(json.dumps(kw) + "\n")
    print(json.dumps(kw), flush=True)
    return kw


def sql_text(name, **var):
    text = ""
    if name in QUERIES:
        var.setdefault("DATA", os.path.join(RUN, "data", QUERIES[name][0]))
        text = open(os.path.join(HERE, "sql", "tables.sql")).read()
    text += open(os.path.join(HERE, "sql", name + ".sql")).read()
    return string.Template(text).substitute(var)


def submit(name, conf=None, **var):
    """Submits through PyFlink's warm client JVM; returns (job id, seconds that the call took)."""
    from pyflink.common import Configuration
    from pyflink.table import EnvironmentSettings, TableEnvironment
    text = re.sub(r"^--.*$", "", sql_text(name, **var), flags=re.M)
    c = Configuration()
    for k, v in {**JOB_CONF, "pipeline.name": name, **(conf or {})}.items():
        c.set_string(k, v)
    env = TableEnvironment.create(
        EnvironmentSettings.new_instance().in_streaming_mode().with_configuration(c).build())
    job = None
    for st in [s.strip() for s in text.split(";") if s.strip()]:
        t0 = time.time()
        res = env.execute_sql(st)
        if st.upper().startswith("INSERT"):
            job = res.get_job_client().get_job_id()
            took = time.time() - t0
    return str(job), took


def state(job):
    return (try_rest("/jobs/" + job) or {}).get("state")


def cancel(job):
    rest("/jobs/%s?mode=cancel" % job, method="PATCH")
    wait_for(lambda: state(job) in ("CANCELED", "FAILED", "FINISHED"), what="cancel")


def ckpts(job):
    return try_rest("/jobs/%s/checkpoints" % job) or {"counts": {}, "history": [], "summary": {}}


def backend_conf(backend):
    if backend == "none":  # hashmap without any checkpoint
        return {"state.backend.type": "hashmap", "execution.checkpointing.interval": "10 d"}
    return {"state.backend.type": backend}


def run_bounded(name, backend, events, conf=None, label="", **var):
    jm, tm = pids()
    before = load()
    c0, j0, b0, w0 = cpu(tm), cpu(jm), machine_busy(), time.time()
    job, took = submit(name, {**backend_conf(backend), **(conf or {})}, **var)
    peak = peak_all = 0
    last_out, last_change = -1, None
    wait_for(lambda: try_rest("/jobs/" + job), timeout=30, what="job on the cluster")
    while True:
        d = try_rest("/jobs/" + job)
        peak = max(peak, rss_mb(tm))
        peak_all = max(peak_all, rss_mb(tm) + rss_mb(jm))
        if d:
            out = sum(v["metrics"]["read-records"] + v["metrics"]["write-records"] for v in d["vertices"])
            if out != last_out:
                last_out, last_change = out, time.time()
            if d["state"] in ("FINISHED", "FAILED", "CANCELED"):
                break
        if time.time() - w0 > LIMIT:
            cancel(job)
        time.sleep(0.25)
    w1, c1, j1, b1 = time.time(), cpu(tm), cpu(jm), machine_busy()
    if d["state"] != "FINISHED":
        return record("run-unfinished", name=name + label, backend=backend, state=d["state"],
                      seconds=round(d["duration"] / 1000, 1), tm_cpu_s=round(c1 - c0, 1), job=job,
                      vertices=[(v["name"][:60], v["metrics"]["read-records"], v["metrics"]["write-records"])
                                for v in d["vertices"]], load=[before, load()])
    dur = d["duration"] / 1000
    ck = ckpts(job)
    s = ck.get("summary", {}).get("end_to_end_duration", {})
    # Part of the machine left to this benchmark while it ran (other users' CPU taken away).
    others = max(0.0, (b1 - b0) - (c1 - c0) - (j1 - j0))
    tmcpu = c1 - c0
    return record("run", name=name + label, backend=backend, events=events, runtime_s=round(dur, 2),
                  ev_s=round(events / dur), ev_s_core=round(events / dur / CORES),
                  tm_cpu_s=round(tmcpu, 2), ev_cpu_s=round(events / tmcpu), jm_cpu_s=round(j1 - j0, 2),
                  tm_peak_rss_mb=peak, peak_rss_mb=peak_all, checkpoints={"counts": ck["counts"], "summary": ck.get("summary")},
                  ckpts=ck["counts"].get("completed"), ckpt_avg_ms=s.get("avg"),
                  ckpt_max_ms=s.get("max"), others_cores=round(others / (w1 - w0), 2),
                  idle_tail_s=round(max(0, w1 - last_change), 1), submit_s=round(took, 2),
                  load=[before, load()], job=job)


def cmd_run(a):
    cluster_up()
    conf = dict(x.split("=", 1) for x in a.set)
    var = dict(x.split("=", 1) for x in a.var)
    for rep in range(a.reps):
        for q in a.queries:
            events = a.events or (QUERIES[q][1] if q in QUERIES else int(var["ROWS"]))
            for b in a.backend.split(","):
                run_bounded(q, b, events, conf, label=a.label, **var)


def newest(job):
    return [c for c in ckpts(job).get("history", []) if c["status"] == "COMPLETED"]


def ckpt_detail(job, c):
    """End-to-end, sync and async durations of one checkpoint, the worst subtask of the stateful vertex."""
    out = {"id": c["id"], "e2e_ms": c["end_to_end_duration"], "state_mb": round(c["state_size"] / 1e6, 1),
           "inc_mb": round(c.get("checkpointed_size", c["state_size"]) / 1e6, 1),
           "inflight_kb": (c.get("persisted_data", 0)) // 1024}
    worst = {"sync": 0, "async": 0, "align": 0, "start_delay": 0}
    for v in rest("/jobs/%s/checkpoints/details/%d" % (job, c["id"])).get("tasks", {}):
        t = try_rest("/jobs/%s/checkpoints/details/%d/subtasks/%s" % (job, c["id"], v))
        for s in (t or {}).get("subtasks", []):
            if s.get("status") != "completed":
                continue
            worst["sync"] = max(worst["sync"], s["checkpoint"]["sync"])
            worst["async"] = max(worst["async"], s["checkpoint"]["async"])
            worst["align"] = max(worst["align"], s["alignment"]["duration"])
            worst["start_delay"] = max(worst["start_delay"], s["start_delay"])
    out.update({k + "_ms": v for k, v in worst.items()})
    return out


def records_in(job):
    """Most records read by any vertex. The first question only makes the JobManager fetch metrics (at most
    once in metrics.fetcher.update-interval), so ask until an answer comes."""
    for _ in range(15):
        n = 0
        for v in rest("/jobs/" + job)["vertices"]:
            m = try_rest("/jobs/%s/vertices/%s/subtasks/metrics?get=numRecordsIn&agg=sum" % (job, v["id"]))
            n = max([n] + [int(x["sum"]) for x in m or []])
        if n:
            return n
        time.sleep(1)
    return 0


def cmd_bigstate(a):
    conf = [] if not a.heartbeat else ["heartbeat.timeout=" + a.heartbeat, "heartbeat.interval=" + a.interval]
    stop_cluster()
    start_cluster(*conf)
    jm, tm = pids()
    job, _ = submit("bigstate", {"execution.checkpointing.interval": "10s",
                                 "restart-strategy.type": "fixed-delay",
                                 "restart-strategy.fixed-delay.attempts": "100",
                                 "restart-strategy.fixed-delay.delay": "1s"},
                    RATE=str(a.rate), MAXKEY=str(a.keys - 1), VLEN=str(a.vlen))
    t0, c0, j0, b0, seen, peak = time.time(), cpu(tm), cpu(jm), machine_busy(), 0, 0
    while time.time() - t0 < a.seconds:
        for c in sorted(newest(job), key=lambda c: c["id"]):
            if c["id"] > seen:
                seen = c["id"]
                record("bigstate-ckpt", t=round(time.time() - t0), **ckpt_detail(job, c), load=load())
                size = c["state_size"]
        if seen and size > a.target_mb * 1e6:
            break
        peak = max(peak, rss_mb(tm) + rss_mb(jm))
        time.sleep(1)
    rows, el, tmcpu, jmcpu = records_in(job), time.time() - t0, cpu(tm) - c0, cpu(jm) - j0
    others = max(0.0, machine_busy() - b0 - tmcpu - jmcpu)
    record("bigstate-rate", rows=rows, seconds=round(el, 1), rows_s=round(rows / el),
           tm_cpu_s=round(tmcpu, 1), jm_cpu_s=round(jmcpu, 1), rss_mb=peak, tm_rss_mb=rss_mb(tm),
           others_cores=round(others / el, 2), load=load())
    for kind in filter(None, a.kills.split(",")):
        kill_test(job, kind, a.heartbeat)
    cancel(job)


def kill_test(job, kind, heartbeat):
    """kill -9 of the TaskManager; a new one is started at once (kind 'now') or already stands by."""
    if kind == "standby":
        old = pids()[1]
        sh("start-tm")
        wait_for(lambda: len((try_rest("/taskmanagers") or {}).get("taskmanagers", [])) >= 2, what="second TM")
    else:
        old = pids()[1]
    since = load()
    before = newest(job)[0] if newest(job) else {"state_size": 0}
    os.kill(old, 9)
    t0 = time.time()
    # Flink's own script would otherwise keep (and later signal) the dead process's id.
    pidfile = os.path.join(os.environ["FLINK_PID_DIR"], "flink-bench-taskexecutor.pid")
    live = [l for l in open(pidfile).read().split() if int(l) != old]
    with open(pidfile, "w") as f:
        f.write("".join(l + "\n" for l in live))
    if kind == "now":
        sh("start-tm")

    def tasks_running():
        d = try_rest("/jobs/" + job)
        return d and d["state"] == "RUNNING" and all(v["status"] == "RUNNING" for v in d["vertices"])
    left = wait_for(lambda: not tasks_running() and time.time() - t0, timeout=300, what="failure noticed")
    back = wait_for(lambda: tasks_running() and time.time() - t0, timeout=300, what="running again")
    # Only a checkpoint triggered after the recovery counts (one may have completed just before the kill).
    fresh = lambda: [c for c in newest(job) if c["trigger_timestamp"] / 1000 > t0 + left]
    first = wait_for(lambda: fresh() and time.time() - t0, timeout=300, what="checkpoint after recovery")
    c = min(fresh(), key=lambda c: c["id"])
    exc = (try_rest("/jobs/%s/exceptions" % job) or {}).get("exceptionHistory", {}).get("entries", [])
    record("tm-kill", replacement=kind, heartbeat=heartbeat or "50s (default)",
           state_mb=round(before["state_size"] / 1e6), noticed_s=round(left, 2), running_again_s=round(back, 2),
           first_ckpt_s=round(first, 2), first_ckpt_e2e_ms=c["end_to_end_duration"],
           cause=(exc[0]["exceptionName"].rsplit(".", 1)[-1] if exc else None), load=[since, load()])


def cmd_backpressure(a):
    # Debloating is a setting of the TaskManager: as a job's own it is ignored without a word.
    modes = {"aligned": {"execution.checkpointing.unaligned.enabled": "false"},
             "aligned+debloat": {"execution.checkpointing.unaligned.enabled": "false"},
             "unaligned": {"execution.checkpointing.unaligned.enabled": "true"}}
    for mode in a.modes.split(","):
        stop_cluster()
        start_cluster(*(["taskmanager.network.memory.buffer-debloat.enabled=true"] if "debloat" in mode else []))
        job, _ = submit("backpressure", {**modes[mode], "execution.checkpointing.interval": "5s",
                                         "execution.checkpointing.timeout": "10min"}, REPEAT=str(a.repeat))
        t0 = time.time()
        wait_for(lambda: state(job) == "RUNNING", what="running")
        time.sleep(a.seconds)
        done = sorted(newest(job), key=lambda c: c["id"])
        rows = records_in(job)
        det = [ckpt_detail(job, c) for c in done[1:]]  # the first one sees an empty exchange
        e2e = [x["e2e_ms"] for x in det]
        prog = ckpts(job)["counts"].get("in_progress")
        record("backpressure", mode=mode, repeat=a.repeat, rows_s=round(rows / (time.time() - t0)),
               ckpts=len(det), in_progress=prog, e2e_med_ms=statistics.median(e2e) if e2e else None,
               e2e_max_ms=max(e2e) if e2e else None,
               start_delay_med_ms=statistics.median(x["start_delay_ms"] for x in det) if det else None,
               align_med_ms=statistics.median(x["align_ms"] for x in det) if det else None,
               state_mb=det[-1]["state_mb"] if det else None,
               inflight_kb=statistics.median(x["inflight_kb"] for x in det) if det else None, load=load())
        cancel(job)


def cmd_latency(a):
    for _ in range(a.reps):
        stop_cluster()
        wait_for(lambda: try_rest("/overview") is None, what="down")
        t0 = time.time()
        before = load()
        sh("start")
        up = wait_for(lambda: try_rest("/overview") is not None and time.time() - t0, step=0.02, what="REST")
        cluster_up()
        slots = time.time() - t0
        jm, tm = pids()
        cj, ct = cpu(jm), cpu(tm)
        time.sleep(10)
        record("coldstart", rest_up_s=round(up, 2), slots_s=round(slots, 2), jm_cpu_s=cj, tm_cpu_s=ct,
               jm_idle_rss_mb=rss_mb(jm), tm_idle_rss_mb=rss_mb(tm), load=[before, load()])
        i0, t1 = cpu(jm) + cpu(tm), time.time()
        time.sleep(5)
        record("idle", cpu_percent=round((cpu(jm) + cpu(tm) - i0) / (time.time() - t1) * 100, 1), load=load())
        for i in range(a.jobs):
            before = load()
            t0 = time.time()
            job, took = submit("tiny")
            d = wait_for(lambda: (lambda d: d and all(v["status"] == "RUNNING" for v in d["vertices"]) and d)(
                try_rest("/jobs/" + job)), step=0.01, what="running")
            ts = d["timestamps"]
            run = max(v["start-time"] for v in d["vertices"])
            record("submit", n=i, total_s=round(time.time() - t0, 3), insert_call_s=round(took, 3),
                   jm_created_to_running_ms=ts["RUNNING"] - ts["INITIALIZING"], load=[before, load()])
            t0 = time.time()
            cancel(job)
            record("cancel", n=i, s=round(time.time() - t0, 3))


def cmd_summary(a):
    rows = {}
    for l in open(os.path.join(RUN, "results.jsonl")):
        r = json.loads(l)
        if r["kind"] == "run" and "runtime_s" in r:
            rows.setdefault((r["name"], r["backend"]), []).append(r)
    med = lambda rs, k: statistics.median(x[k] for x in rs)
    print("| job | backend | runs | runtime s (all) | events/s | events/s/core | TM CPU s | events per CPU s | peak TM RSS MB | ckpts | ckpt avg ms | others' cores | load |")
    print("|---|---|---|---|---|---|---|---|---|---|---|---|---|")
    for (n, b), rs in rows.items():
        print("| %s | %s | %d | %.1f (%s) | %s | %s | %.1f | %s | %d | %d | %s | %.2f | %s |" % (
            n, b, len(rs), med(rs, "runtime_s"), ", ".join("%.1f" % x["runtime_s"] for x in rs),
            format(int(med(rs, "ev_s")), ","), format(int(med(rs, "ev_s_core")), ","), med(rs, "tm_cpu_s"),
            format(int(med(rs, "ev_cpu_s")), ","), max(x["tm_peak_rss_mb"] for x in rs), med(rs, "ckpts"),
            "/".join(str(x["ckpt_avg_ms"]) for x in rs), med(rs, "others_cores"),
            ", ".join("%.1f" % x["load"][1] for x in rs)))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    sub = p.add_subparsers(dest="cmd", required=True)
    r = sub.add_parser("run")
    r.add_argument("queries", nargs="+")
    r.add_argument("--backend", default="rocksdb,hashmap")
    r.add_argument("--reps", type=int, default=1)
    r.add_argument("--events", type=int, help="events of the data, where it is not the set of setup.sh")
    r.add_argument("--set", action="append", default=[])
    r.add_argument("--var", action="append", default=[])
    r.add_argument("--label", default="")
    r.set_defaults(fn=cmd_run)
    b = sub.add_parser("bigstate")
    b.add_argument("--heartbeat")
    b.add_argument("--interval", default="1s")
    b.add_argument("--rate", type=int, default=60000)
    b.add_argument("--keys", type=int, default=20_000_000)
    b.add_argument("--vlen", type=int, default=200)
    b.add_argument("--target-mb", type=float, default=1000)
    b.add_argument("--seconds", type=int, default=240)
    b.add_argument("--kills", default="now,standby")
    b.set_defaults(fn=cmd_bigstate)
    b = sub.add_parser("backpressure")
    b.add_argument("--modes", default="aligned,aligned+debloat,unaligned")
    b.add_argument("--repeat", type=int, default=5000)
    b.add_argument("--seconds", type=int, default=90)
    b.set_defaults(fn=cmd_backpressure)
    l = sub.add_parser("latency")
    l.add_argument("--reps", type=int, default=3)
    l.add_argument("--jobs", type=int, default=5)
    l.set_defaults(fn=cmd_latency)
    s = sub.add_parser("summary")
    s.set_defaults(fn=cmd_summary)
    a = p.parse_args()
    a.fn(a)


if __name__ == "__main__":
    main()
