#!/bin/sh
# Every command that is printed in README, in the quick start and under "Examples" of --help, on small data. (The
# cookbook has a test of its own.) Left out is only what downloads, and what ./run does.
. "$(dirname "$0")/cli_test.sh"
command -v python3 >/dev/null || { echo "skipped: no python3"; exit 77; }
[ -d /usr/share/wordnet ] || { echo "skipped: no WordNet"; exit 77; }
root=$(cd "$(dirname "$0")/../.." && pwd)
mkdir "$TMP/bin" "$TMP/work" && cd "$TMP/work" || exit 1

# The program, made small where an example would take minutes.
cat >"$TMP/bin/stet" <<END
#!/bin/sh
case "\$1" in
demo) shift; exec "$STET" demo --texts 300 --epochs 2 --limit 10 "\$@" ;;
sweep) exec "$STET" "\$@" --epochs 1 ;;
train) exec "$STET" "\$@" --epochs 2 ;;
reproduce) shift; exec "$STET" reproduce --no-run "\$@" ;; # cli_test_reproduce runs it
*) exec "$STET" "\$@" ;;
esac
END
chmod +x "$TMP/bin/stet"
PATH=$TMP/bin:$PATH HOME=$TMP
export PATH HOME
mkdir -p "$HOME/.local/share/bash-completion/completions"

# Files under the names that the pages use.
"$STET" demo --texts 300 --epochs 2 --limit 10 -o demo -q >/dev/null || fail "demo"
for part in train test; do sed "s/^negative/neg/; s/^positive/pos/" demo/$part.tsv >all-$part.tsv; done
head -n 40 all-test.tsv >test.tsv
for to in train.tsv.xz train.csv; do stet data convert all-train.tsv $to -q || fail "$to"; done
for to in test.tsv.xz test.csv; do stet data convert test.tsv $to -q || fail "$to"; done
mkdir yahoo && awk -F '\t' '{ print $1 "," "a title" "," "\"" $2 "\"" ",an answer" }' test.tsv >yahoo/train.csv
cp yahoo/train.csv yahoo/test.csv
for part in train test; do
    for class in neg pos; do mkdir -p aclImdb/$part/$class; done
    awk -F '\t' -v d=aclImdb/$part '{ f = d "/" $1 "/" NR "_1.txt"; print $2 >f; close(f) }' test.tsv
done
for to in glove.txt glove.6B.300d.txt counter-fitted-vectors.txt; do cp demo/vectors.txt $to; done
cut -f2 test.tsv >reviews.txt
printf '{"film":["movie","picture"],"great":["good","wonderful"],"good":["great","fine"],"bad":["poor","awful"]}' >counterfitted_neighbors.json
xz -k counterfitted_neighbors.json
cp demo/synonyms.subst jia.subst
mkdir data && cp -r aclImdb data && cp glove.6B.300d.txt counterfitted_neighbors.json jia.subst data && printf 'the\na\n' >data/stopwords.txt
repeat 30 '1\tThe\tthe\tDET\tDT\t_\t2\tdet\t_\t_\n2\tfilm%.0s\tfilm\tNOUN\tNN\t_\t3\tnsubj\t_\t_\n3\tended%.0s\tend\tVERB\tVBD\t_\t0\troot\t_\t_\n\n' >t.conllu
for to in train test; do xz -c t.conllu >en_ewt-ud-$to.conllu.xz; done
cat >victim.py <<'END'
import json, sys
for line in sys.stdin:
    print(json.dumps({"probabilities": [[0.2, 0.8] if "good" in t else [0.8, 0.2] for t in json.loads(line)["texts"]]}), flush=True)
END
stet train --data train.csv --vectors glove.txt --synonyms jia.subst -o runs/cnn -q >/dev/null || fail "train"
stet train --model sum --data train.csv --vectors glove.txt --synonyms jia.subst -o runs/sum -q >/dev/null || fail "train sum"
for run in standard robust gbm cnn-1 cnn-2; do cp -r runs/cnn runs/$run; done

# Commands of a page: fenced sh blocks, and lines after "$ "; of help, what follows "Examples".
cat >"$TMP/extract.py" <<'END'
import re, subprocess, sys
stet, root = sys.argv[1:]
out = []
for page in ("README.md", "docs/quickstart.md"):
    text = open(f"{root}/{page}").read()
    for block in re.findall(r"^```sh\n(.*?)^```", text, re.S | re.M):
        out += [(page, c) for c in re.sub(r"\\\n", " ", block).splitlines()]
    out += [(page, re.sub(r"\\\n", " ", c)) for c in re.findall(r"^\$ ((?:.*\\\n)*.*)$", text, re.M)]
for name in subprocess.run([stet, "man", "--names"], capture_output=True, text=True).stdout.splitlines():
    text = subprocess.run([stet, "help"] + name.split(), capture_output=True, text=True).stdout
    if "\nExamples\n" not in text:
        print(f"NONE\t{name}")
        continue
    out += [(f"stet help {name}", c.strip()) for c in re.sub(r"\\\n", " ", text.split("\nExamples\n")[1]).splitlines()]
for where, command in out:
    if command.strip() and not re.search(r"^\./run|stet data get \w|\| man -l", command):
        print(f"{where}\t{re.sub(' +', ' ', command)}")
END
python3 "$TMP/extract.py" "$STET" "$root" >"$TMP/list" || fail "extract"
n=0
while IFS="$(printf '\t')" read -r where command; do
    [ "$where" = NONE ] && { fail "stet help $command has no examples"; continue; }
    n=$((n + 1))
    case "$command" in *"verify cert.jsonl"*"--require 700"*) want=4 ;; *) want=0 ;; esac
    case "$command" in # of the model that is there by now
    *"verify cert.jsonl"*) "$STET" certify runs/cnn --data test.tsv.xz --synonyms jia.subst -o cert.jsonl -q >/dev/null || fail "certify" ;;
    esac
    echo "I loved it" | sh -c "$command" >"$TMP/.out" 2>"$TMP/.err"
    got=$?
    [ $got = $want ] || fail "$where: '$command' exited with $got: $(tail -n 2 "$TMP/.err")"
done <"$TMP/list"
[ $n -ge 70 ] || fail "only $n commands were found"
exit $failed
