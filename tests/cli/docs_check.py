#!/usr/bin/env python3
"""docs_check.py STET ROOT: names every stale line of the documentation: an option that no command has, a file that is
elsewhere, a line of more than 100 columns."""
import re
import subprocess
import sys
from pathlib import Path

stet, root = sys.argv[1], Path(sys.argv[2])
files = subprocess.run(["git", "-C", root, "ls-files", "-co", "--exclude-standard"], capture_output=True, text=True).stdout.split("\n")
files = {f for f in files if f} or {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file()}
names = {Path(f).name for f in files}
folders = {str(p) for f in files for p in Path(f).parents}
pages = sorted(f for f in files if f.endswith(".md") and not f.startswith(("docs/commands/", "third_party/")))

help_text = ""
for name in subprocess.run([stet, "man", "--names"], capture_output=True, text=True).stdout.splitlines():
    help_text += subprocess.run([stet, "help"] + name.split(), capture_output=True, text=True).stdout
options = set(re.findall(r"--([a-z][a-z0-9-]*)", help_text)) | {"help", "version"}
options |= {o[3:] for o in options if o.startswith("no-")} | {"no-" + o for o in options}
others = {"preset", "static", "take", "check", "json", "ring", "libs", "cflags", "prefix", "target", "cpu-time", "no-deps"}  # of cmake, pip, pkg-config and our own scripts

bad = []
for page in pages:
    lines = (root / page).read_text().splitlines()
    for n, line in enumerate(lines, 1):
        where = f"{page}:{n}: "
        if len(line) > 100 and not line.startswith("|") and page.startswith(("docs/", "README")):
            bad.append(where + f"{len(line)} columns")
        for option in re.findall(r"(?<![-\w])--([a-z][a-z0-9-]+)", line):
            if option not in options | others and ".py" not in line and "cmake" not in line:
                bad.append(where + f"no command has --{option}")
        # Links, and paths and file names in backticks.
        for path in re.findall(r"\]\(([^)#: ]+)\)", line):
            at = (Path(page).parent / path)
            clean = str(Path(*[p for p in at.parts])) if ".." not in at.parts else str(at.resolve().relative_to(Path.cwd()))
            if clean not in files and clean.rstrip("/") not in folders and not (root / at).exists():
                bad.append(where + f"no file {path}")
        for path in re.findall(r"`((?:src|tests|include|docs|bench|cmake|examples)/[\w./*-]+)`", line):
            if re.search(r"(^|[/_])X[._]", path):
                continue  # a name to be chosen
            if "*" in path:
                found = list(root.glob(path))
            else:
                found = path in files or path.rstrip("/") in folders
            if not found:
                bad.append(where + f"no file {path}")
        for name in re.findall(r"`([a-z0-9_]+\.[ch])`", line):
            if name not in names:
                bad.append(where + f"no file {name}")
print("\n".join(bad))
sys.exit(1 if bad else 0)
