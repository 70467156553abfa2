"""Writes twins.txt.gz: the snapshots of the .txtar files as pickles of every protocol and of TorchScript's
dialect. Run it in this folder with Python 3.8 or later. A line is: name, dialect, pickle in hex."""
import glob
import gzip
import importlib.util
import json
import pickle

spec = importlib.util.spec_from_file_location("gen", "../../../internal/pickle/testdata/gen.py")
machine = importlib.util.module_from_spec(spec)
spec.loader.exec_module(machine)


def share(v, seen):
    """Pool names become tuples; equal frames and lists of frames become one object, as in real files."""
    if isinstance(v, dict):
        v = {k: tuple(x) if k in ("segment_pool_id", "pool_id") else share(x, seen) for k, x in v.items()}
        return seen.setdefault(repr(v), v) if "filename" in v else v
    if isinstance(v, list):
        v = [share(x, seen) for x in v]
        return seen.setdefault(repr(v), v) if not v or isinstance(v[0], dict) and "filename" in v[0] else v
    return v


def main():
    with gzip.GzipFile("twins.txt.gz", "wb", mtime=0) as out:
        for path in sorted(glob.glob("*.txtar")):
            body = open(path).read().split("-- snapshot.json --\n")[1].split("\n-- ")[0]
            tree = share(json.loads(body), {})
            forms = {str(p): pickle.dumps(tree, protocol=p) for p in range(6)}
            forms["torchscript"] = machine.torchscript(tree)
            for dialect, data in forms.items():
                out.write(f"{path[:-6]} {dialect} {data.hex()}\n".encode())


if __name__ == "__main__":
    main()
