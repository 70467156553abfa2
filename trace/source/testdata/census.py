"""Counts what is in snapshots, with nothing but CPython's own unpickler: census.py FILE... prints one line
of JSON a file. The test compares it with what this program reads."""
import json
import pickle
import sys

M = 2**64 - 1


def pairing(trace, segments):
    """Blocks that the trace or the final state shows without an alloc, and how many allocs there are."""
    live, allocs, before = {}, 0, []
    for e in trace:
        a = e["action"]
        if a == "alloc":
            allocs += 1
            live[e["addr"]] = "live"
        elif a == "free_requested":
            if e["addr"] not in live:
                before.append((e["addr"], e["size"]))
            live[e["addr"]] = "pending"
        elif a == "free_completed":
            if e["addr"] not in live:
                before.append((e["addr"], e["size"]))
            live.pop(e["addr"], None)
    for s in segments:
        for b in s["blocks"]:
            if b["state"] != "inactive" and b["address"] not in live:
                before.append((b["address"], b["requested_size"]))
    return allocs, sorted(before)


def census(path):
    with open(path, "rb") as f:
        snap = pickle.load(f)
    stacks = set()
    devices = []
    for i, trace in enumerate(snap["device_traces"]):
        segments = [s for s in snap["segments"] if s["device"] == i]
        if not trace and not segments:
            continue
        d = {"device": i, "actions": {}, "order": 0, "frames": 0, "streams": set(), "times": 0, "segments": [], "blocks": []}
        for n, e in enumerate(trace):
            c = d["actions"].setdefault(e["action"], [0, 0])
            c[0] += 1
            c[1] += e["size"]
            d["order"] = (d["order"] * 31 + (e["addr"] if "addr" in e else e["device_free"]) + e["stream"]) & M
            d["times"] = (d["times"] * 31 + e["time_us"]) & M
            d["streams"].add(e["stream"])
            frames = tuple((f["filename"], f["name"], f["line"]) for f in e.get("frames", []))
            d["frames"] += len(frames)
            stacks.add(frames)
        for s in sorted(segments, key=lambda s: s["address"]):
            d["streams"].add(s["stream"])
            d["segments"].append([s["address"], s["total_size"], s["stream"], list(s["segment_pool_id"]), s["segment_type"], s["is_expandable"]])
            for b in s["blocks"]:
                d["blocks"].append([b["address"], b["size"], b["requested_size"] if b["state"] != "inactive" else 0, b["state"]])
        d["streams"] = sorted(d["streams"])
        d["allocs"], d["before"] = pairing(trace, segments)
        devices.append(d)
    for s in snap["segments"]:
        for b in s["blocks"]:
            if b["state"] != "inactive":
                stacks.add(tuple((f["filename"], f["name"], f["line"]) for f in b["frames"]))
        stacks.add(tuple((f["filename"], f["name"], f["line"]) for f in s.get("frames", [])))
    stacks.add(())
    return {"devices": devices, "stacks": len(stacks), "annotations": len(snap["external_annotations"]),
            "conf": snap["allocator_settings"]["PYTORCH_CUDA_ALLOC_CONF"]}


for path in sys.argv[1:]:
    print(json.dumps(census(path)), flush=True)
