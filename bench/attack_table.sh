#!/bin/sh
# Accuracy under every attack and profile, one JSON line each, for the tables of docs/results.md.
#
#     bench/attack_table.sh MODELDIR DATA SYNONYMS OUT.jsonl [TEXTS]
#
# TEXTS of DATA (1000 unless given, the sample of seed 1) are attacked with $STET (build/release/stet) on $THREADS threads (2).
# $ATTACKS and $PROFILES choose from the table. TextAttack's pso asks a whole neighbourhood for every particle and round, thousands of
# times what the others ask: it gets $SLOW_TEXTS texts (50). `exhaustive` is left out: no review is short enough. Where $TEXT_SETS
# names a file of per-text sets, two more lines attack its texts. Logs beside OUT let an interrupted table go on; what was
# resumed has "resumed" above 0 and too few "seconds". Ends with 1 if `greedy` is above another attack on the same texts.
set -eu
if [ $# -lt 4 ]; then
    sed -n '2,11s/^# \{0,1\}//p' "$0" >&2
    exit 2
fi
model=$1 data=$2 sets=$3 out=$4 texts=${5:-1000}
stet=${STET:-build/release/stet} threads=${THREADS:-2}
mkdir -p "$out.logs"
: >"$out.part"

value() # KEY: of the last line
{
    tail -n 1 "$out.part" | sed -E "s/.*\"$1\":([0-9.e-]+).*/\1/"
}

attack() # NAME PROFILE SETS TEXTS
{
    "$stet" attack "$model" --data "$data" --synonyms "$3" --attack "$1" --profile "$2" --limit "$4" --seed 1 --threads "$threads" \
        --log "$out.logs/$1-$2-$(basename "$3").jsonl" --no-record --json -q >>"$out.part"
    echo "$1 $2: $(value n) texts, accuracy $(value clean), under attack $(value aua), $(value seconds) s" >&2
}

least=1
for profile in ${PROFILES:-openattack textattack gbm-paper original}; do
    for name in ${ATTACKS:-pwws ga pso textfooler}; do
        n=$texts
        [ "$name $profile" != "pso textattack" ] || [ "$n" -lt "${SLOW_TEXTS:-50}" ] || n=${SLOW_TEXTS:-50}
        attack "$name" "$profile" "$sets" "$n"
        [ "$n" -ne "$texts" ] || least=$(printf '%s\n%s\n' "$least" "$(value aua)" | sort -g | head -n 1)
    done
done
attack greedy openattack "$sets" "$texts"
greedy=$(value aua)
if [ -n "${TEXT_SETS:-}" ]; then
    attack pwws openattack "$TEXT_SETS" 0
    attack greedy openattack "$TEXT_SETS" 0
fi
mv "$out.part" "$out"
if [ "$(printf '%s\n%s\n' "$greedy" "$least" | sort -g | head -n 1)" != "$greedy" ]; then
    echo "greedy leaves $greedy, another attack only $least" >&2
    exit 1
fi
