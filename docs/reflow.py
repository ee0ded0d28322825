#!/usr/bin/env python3
"""Wraps the prose of Markdown pages at 98 columns: reflow.py PAGE... Code, tables, headings, quotes and what is between
<!-- --> markers stay as they are. `./run docs` runs it over docs/*.md and README.md."""
import re
import sys
import textwrap
from pathlib import Path

WIDTH = 98
ITEM = re.compile(r"^(\s*)([-*]|\d+\.)\s+")
ALONE = ("```", "|", "#", "<!--", "![", "> ")


def wrap(text, first, rest):
    lines = textwrap.wrap(text, WIDTH, initial_indent=first, subsequent_indent=rest, break_long_words=False, break_on_hyphens=False)
    for k in range(1, len(lines)):  # a line must not begin like an item, a heading or a quote
        word, _, more = lines[k][len(rest):].partition(" ")
        if re.fullmatch(r"[-+*#>|]+|\d+[.)]", word):
            lines[k - 1] += " " + word
            lines[k] = rest + more
    return lines


def reflow(text):
    lines, out, at, fence, table = text.split("\n"), [], 0, False, False
    while at < len(lines):
        line = lines[at]
        at += 1
        fence ^= line.startswith("```")
        table = (table or line.startswith("<!-- table")) and not line.startswith("<!-- end")
        if fence or table or not line.strip() or line.startswith(ALONE + ("    ",)):
            out.append(line)
            continue
        item = ITEM.match(line)
        first = item[0] if item else ""
        words = [line[len(first):].strip()]
        while at < len(lines) and lines[at].strip() and not lines[at].startswith(ALONE) and not ITEM.match(lines[at]):
            if item and not lines[at].startswith(" "):
                break
            words.append(lines[at].strip())
            at += 1
        out += wrap(" ".join(words), first, " " * len(first))
    return "\n".join(out)


for path in map(Path, sys.argv[1:]):
    old = path.read_text()
    new = reflow(old)
    assert old.split() == new.split(), path
    if new != old:
        path.write_text(new)
