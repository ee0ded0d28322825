#!/bin/sh
# The program in a bad environment: little address space, libraries in the current folder.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

repeat 40 '1\tthis film is good and fine number%d\n0\tthis film is bad and poor number%d\n' >data.tsv
vectors this film is good fine great bad poor awful and >vectors.txt
"$STET" train --data data.tsv --vectors vectors.txt --lr 0.02 --batch 8 --epochs 2 -o cnn -q >/dev/null || fail "training"

# Names cannot speak to the terminal.
odd=$(printf 'a\033[31m\007b\302\233c')
for args in "eval $odd --data data.tsv" "eval cnn --data $odd" "data info $odd" "$odd" "eval cnn --data data.tsv --limit $odd"; do
    "$STET" $args >/dev/null 2>err && fail "'$args' should fail"
    LC_ALL=C grep -q "$(printf '[\001-\010\013-\037\177]')" err && fail "control characters in: $(cat -v err)"
done

# A library in the current folder is not ours to load.
echo "not a library" >libpng16.so.16
output "stet" "$STET" --version

# In a small address space a command works or says why it cannot; sanitizers need more than there is.
if ! nm -D "$STET" 2>/dev/null | grep -qE '__(asan|tsan)_init'; then
    output "stet" sh -c 'ulimit -v 120000; exec timeout 20 "$0" --version' "$STET"
    expect 1 "out of memory" sh -c 'ulimit -v 160000; exec timeout 20 "$0" eval cnn --data data.tsv --threads 4' "$STET"
    output "accuracy" sh -c 'ulimit -v 400000; exec timeout 20 "$0" eval cnn --data data.tsv --threads 1' "$STET"
fi

# Files of two models, or a flipped bit, are found; a folder of before there were sums loads.
"$STET" train --data data.tsv --vectors vectors.txt --lr 0.02 --batch 8 --epochs 2 --seed 7 -o other -q >/dev/null || fail "training"
grep -q '"sha256"' cnn/config.json || fail "config.json holds no sums"
cp -r cnn mixed && cp other/model.safetensors mixed
expect 3 "mixed/model.safetensors: SHA-256" "$STET" eval mixed --data data.tsv
cp -r cnn words && sed -i 's/^good$/goood/' words/vocab.txt
expect 3 "words/vocab.txt: SHA-256" "$STET" predict words "a good film"
cp -r cnn flipped
size=$(wc -c <flipped/model.safetensors)
printf '\001' | dd of=flipped/model.safetensors bs=1 seek=$((size - 4)) conv=notrunc 2>/dev/null
expect 3 "flipped/model.safetensors: SHA-256" "$STET" eval flipped --data data.tsv
python3 - mixed/config.json <<'EOF' 2>/dev/null && output "accuracy" "$STET" eval mixed --data data.tsv
import json, sys
config = json.load(open(sys.argv[1]))
del config["sha256"]
json.dump(config, open(sys.argv[1], "w"))
EOF
# A save that stopped half way: the files that config.json speaks of are still there under their second names.
cp -r cnn half && mv half/model.safetensors half/model.safetensors.tmp-old && cp other/model.safetensors half
"$STET" predict cnn --json "a good film" >want
"$STET" predict half --json "a good film" | sed 's/"half"/"cnn"/g' >got
cmp -s want got || fail "half a save: $(cat got), not $(cat want)"
"$STET" train --data data.tsv --vectors vectors.txt --lr 0.02 --batch 8 --epochs 2 --seed 7 -o half -q >/dev/null || fail "retraining"
cmp -s half/model.safetensors other/model.safetensors || fail "the retrained model differs"
ls half/*.tmp-* >/dev/null 2>&1 && fail "left behind: $(ls half)"

# A model that computes what is not a number gives no answer, and the message names its folder.
if cp -r cnn huge && python3 - huge <<'EOF' 2>/dev/null; then
import json, struct, sys
path = sys.argv[1] + "/model.safetensors"
data = bytearray(open(path, "rb").read())
(n,) = struct.unpack("<Q", data[:8])
for name, t in json.loads(data[8 : 8 + n]).items():
    if name != "__metadata__":
        begin, end = (8 + n + x for x in t["data_offsets"])
        values = struct.unpack("<%df" % ((end - begin) // 4), data[begin:end])
        data[begin:end] = struct.pack("<%df" % len(values), *(v * 1e30 for v in values))
open(path, "wb").write(data)
config = json.load(open(sys.argv[1] + "/config.json"))
del config["sha256"]
json.dump(config, open(sys.argv[1] + "/config.json", "w"))
EOF
    echo '{"good": ["fine"]}' >sets.json
    expect 3 "huge: the logit" "$STET" predict huge "a good film"
    expect 3 "huge: the logit" "$STET" eval huge --data data.tsv
    expect 3 "huge: the logit" "$STET" attack huge --data data.tsv --synonyms sets.json --attack greedy -q
fi

# What is no plain file is refused at once.
for special in config.json vocab.txt model.safetensors; do
    cp -r cnn fifo && rm fifo/$special && mkfifo fifo/$special
    expect 1 "fifo/$special: not a regular file" timeout 10 "$STET" eval fifo --data data.tsv
    rm fifo/$special && ln -s /dev/zero fifo/$special
    expect 1 "fifo/$special: not a regular file" timeout 10 "$STET" eval fifo --data data.tsv
    rm fifo/$special && truncate -s 8G fifo/$special
    expect 3 "fifo/$special" timeout 10 "$STET" eval fifo --data data.tsv
    rm -r fifo
done
cp -r cnn fifo && mkdir -p fifo/results && rm -f fifo/results/* fifo/train.jsonl && mkfifo fifo/train.jsonl
expect 1 "fifo/train.jsonl: not a regular file" timeout 10 "$STET" report fifo -o fifo.html
rm fifo/train.jsonl && mkfifo fifo/results/eval.json
expect 1 "fifo/results/eval.json: not a regular file" timeout 10 "$STET" report fifo -o fifo.html
[ ! -e fifo.html ] || fail "half a report"
mkfifo pipe && { cat data.tsv >pipe & }
output "accuracy" timeout 10 "$STET" eval cnn --data pipe --no-record # data may come through a pipe

# The folder goes away while it is written to.
"$STET" train --data data.tsv --vectors vectors.txt --epochs 100000 --patience 0 -o gone >/dev/null 2>gone.err &
pid=$!
while [ ! -s gone/config.json ] && kill -0 $pid 2>/dev/null; do sleep 0.05; done
mv gone away
wait $pid
[ $? = 1 ] || fail "a run whose folder went away should fail: $(tail -1 gone.err)"
grep -q "stet: gone.*\(the folder was removed or replaced\|No such file\)" gone.err || fail "$(tail -1 gone.err)"

# The same bytes, whenever they are written.
"$STET" data convert data.tsv a.jsonl.gz -q >/dev/null && sleep 1.1 && "$STET" data convert data.tsv b.jsonl.gz -q >/dev/null
cmp -s a.jsonl.gz b.jsonl.gz || fail ".gz files carry the time"

# A wrong number in the first line of the vectors is no part of the word; a word with spaces is.
printf 'good 0.1x 0.2 0.3\nbad 0.1 0.2 0.3\n' >first.txt
expect 3 'first.txt:1: field 2 is "0.1x", expected a finite decimal number' "$STET" train --data data.tsv --vectors first.txt -o first
printf 'good nan 0.2 0.3\nbad 0.1 0.2 0.3\n' >first.txt
expect 3 'first.txt:1: field 2 is "nan"' "$STET" train --data data.tsv --vectors first.txt -o first
{ printf 'very good' && vectors g | cut -c2- && vectors good bad film; } >spaced.txt
"$STET" train --data data.tsv --vectors spaced.txt --epochs 1 -o first -q >/dev/null || fail "a first word with spaces"

# What a killed process left behind goes at the next start; what a living one writes does not, nor what only looks alike.
touch half/checkpoint.safetensors.tmp-2147483646 half/config.json.tmp-1 half/notes.tmp-old report.html.tmp-2147483646 my.tmp-2147483646
"$STET" train --data data.tsv --vectors vectors.txt --epochs 1 -o half -q >/dev/null || fail "retraining"
"$STET" report half -o report.html -q >/dev/null || fail "report"
[ "$(echo half/*.tmp-*)" = "half/config.json.tmp-1 half/notes.tmp-old" ] || fail "left: $(echo half/*.tmp-*)"
[ "$(echo *.tmp-*)" = "my.tmp-2147483646" ] || fail "left: $(echo *.tmp-*)"
exit $failed
