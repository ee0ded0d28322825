#!/bin/sh
# The paper's tables on the built-in corpus, small and whole; what is there is not done again.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1

# Mistakes are told before anything starts.
expect 2 "expected what to reproduce" "$STET" reproduce
expect 2 "'table2': expected table1" "$STET" reproduce table2
expect 2 "--defenses magic: expected one of standard,ibp" "$STET" reproduce table1 --defenses magic -o x
expect 2 "--models rnn: no such kind" "$STET" reproduce table1 --models rnn -o x
expect 2 "--seeds x: expected a number" "$STET" reproduce table1 --seeds x -o x
expect 2 "attack" "$STET" reproduce table1 --attacks magic -o x
expect 2 "need --data" "$STET" reproduce table1 --test t.tsv -o x
[ ! -e x ] || fail "a folder was made for nothing"
expect 2 "stet train: " "$STET" reproduce table1 -q --quick --models cnn --defenses standard -o y -- --lr nan
[ -z "$(ls -d y/cnn* 2>/dev/null)" ] || fail "training began before the options were checked"

# Everything, in less than five minutes even where other tests run beside it.
began=$(date +%s)
"$STET" reproduce all --quick --jobs 2 -o q >out 2>err || fail "reproduce all: $(cat err)"
[ $(($(date +%s) - began)) -lt 300 ] || fail "reproduce all --quick took $(($(date +%s) - began)) s"
for t in "table1, cnn" "table1, bilstm" "s4, s4" "beta, cnn" "time, cnn" "time, bilstm" heatmap distribution; do
    grep -q "^$t" out || fail "the terminal lacks $t"
    grep -q "^## $t" q/reproduce.md || fail "reproduce.md lacks $t"
    grep -q "<h3>$t" q/report.html || fail "report.html lacks $t"
done
grep -q "^## examples" q/reproduce.md || fail "reproduce.md lacks examples"
for f in beta.svg figures/cnn/heat.svg figures/cnn/heat2.svg figures/bilstm/entries.svg; do
    [ -s q/$f ] || fail "q/$f is missing"
done
grep -q " -> " out || fail "no flipped text"
# Time: of standard training, and of standard training with the batches that the row has.
grep -A3 "^time, cnn" out | grep -q "at its sizes" || fail "columns of time"
[ "$(grep -A12 "^time" out | grep -c "^Standard .* 1.00  *1.00 *$")" = 2 ] || fail "standard is as fast as itself"
python3 - q/time <<'P' || fail "what the clock measured"
import json, sys
of = lambda row: json.load(open(f"{sys.argv[1]}/cnn_{row}_seed-1_round-1/time.json"))
assert of("standard-as-ibp")["steps_per_epoch"] == of("ibp")["steps_per_epoch"] > of("standard")["steps_per_epoch"]
P
# The paper's figures stand under ours, both kinds of sets beside each other.
grep -A2 "^IBP .*full .* x " out | grep -q "paper's .* x " || fail "the paper's sets"
grep -A2 "^IBP .*full" out | grep -q "paper prints  *81.7  *75.9  *76.0  *75.9" || fail "what the paper prints"
grep -A2 "^| IBP .*| full |" q/reproduce.md | grep -q "| paper prints | .*| 81.7 | 75.9 | 76.0 | 75.9 |" ||
    fail "what the paper prints, in reproduce.md"
grep -A2 '<th scope="row">IBP</th>.*>full<' q/report.html |
    grep -q '>paper prints</td>.*"clean">81.7</td>.*"pwws">75.9</td>.*"ga">76.0</td>.*"pso">75.9</td>' ||
    fail "what the paper prints, in report.html"
[ "$(grep -c '"what": "table1"' q/reproduce.json)" = 24 ] || fail "rows of table1"
[ -z "$(find q -name '*.part')" ] || fail "something half-done stays behind"

# Once is enough; one missing result is made again, and nothing else.
find q -type f -exec touch -d '2001-01-01' {} +
"$STET" reproduce all --quick --jobs 2 -o q >again 2>err || fail "again: $(cat err)"
cmp -s out again || fail "the second time tells something else: $(diff out again | head -5)"
[ "$(find q -type f -newermt 2002-01-01 | sort | tr '\n' ' ')" = "q/beta.svg q/report.html q/reproduce.json q/reproduce.md q/results/demo.json " ] ||
    fail "done again: $(find q -type f -newermt 2002-01-01)"
rm q/cnn_sem_seed-1/results/attack-pso-original.json
"$STET" reproduce table1 --quick --no-run --models cnn --defenses sem -o q >out 2>err || fail "--no-run: $(cat err)"
[ ! -e q/cnn_sem_seed-1/results/attack-pso-original.json ] || fail "--no-run ran something"
grep -q "^SEM .* - " out || fail "a figure that is not there: $(cat out)"
grep -q "^SEM .* - .*±.*±.*±" out || fail "figures behind one that is not there: $(cat out)"
"$STET" reproduce table1 --quick --models cnn --defenses sem -o q >out 2>err || fail "one missing: $(cat err)"
[ "$(find q/cnn_sem_seed-1 -name '*.json' -newermt 2002-01-01)" = q/cnn_sem_seed-1/results/attack-pso-original.json ] ||
    fail "one missing result: $(find q/cnn_sem_seed-1 -newermt 2002-01-01)"

# Medians over seeds; other rows; settings of training; other settings in the same folder are refused.
some="--quick --models cnn --attacks pwws --no-certify -o q"
"$STET" reproduce table1 $some --defenses standard --seeds 1,2,3 --json >lines 2>err || fail "seeds: $(cat err)"
python3 - lines <<'P' || fail "the median: $(cat lines)"
import json, sys
rows = [json.loads(l) for l in open(sys.argv[1])]
assert [r["sets"] for r in rows] == ["full", "paper"], rows
for r in rows:
    m = r["measures"]["pwws"]
    assert len(m["values"]) == 3 and m["median"] == sorted(m["values"])[1] and m["lo"] <= m["median"] <= m["hi"], m
    assert abs(m["printed"] - 0.006) < 1e-12
P
# Each row says how many seeds its figures have: here one seed's attack is missing, and three runs of SEM but one.
rm q/cnn_standard_seed-2/results/attack-pwws-original.json
"$STET" reproduce table1 $some --no-run --defenses standard,sem --seeds 1,2,3 >out 2>err || fail "some seeds: $(cat err)"
grep -q "^Standard  *2-3  *full " out || fail "seeds of a row: $(cat out)"
grep -q "^  *3  *paper's " out || fail "seeds of a whole row: $(cat out)"
grep -q "^SEM  *1  *full " out || fail "seeds of a row with one: $(cat out)"
grep -q "median of 3 seeds" out && fail "the note counts seeds that are not there: $(cat out)"
"$STET" reproduce table1 $some --defenses standard --seeds 2 >out 2>err || fail "the missing attack: $(cat err)"
expect 2 "q/cnn_standard_seed-1: trained with --batch 0, not 32" "$STET" reproduce table1 -q $some --defenses standard -- --batch 32
expect 2 "holds files of other settings" "$STET" reproduce table1 --quick --texts 900 -o q

# Rows with stages before their training, and of recipes: what they were trained with is what is asked for again.
for i in 1 2; do
    "$STET" reproduce table1 $some --defenses mixada,dne,robust,eibc --limit 5 --jobs 2 >out$i 2>err || fail "more rows: $(cat err)"
done
cmp -s out1 out2 || fail "rows of recipes, the second time: $(diff out1 out2 | head -5)"
for row in MixADA DNE "stet: --recipe robust" EIBC; do
    grep -q "^$row .*full .* x .*±.*±" out1 || fail "no figures of $row: $(cat out1)"
done
[ -s q/cnn_mixada_seed-1/flipped.jsonl ] || fail "no adversarial texts"
grep -A1 '^DNE' out1 | grep -q 'other draws' || fail "no row with other draws: $(cat out1)"
grep -q 'cnn_dne_seed-1 draws anew for every text.* After PWWS (original) it classifies' q/report.html ||
    fail "the report says nothing of other draws"
[ "$(grep -c 'other draws  ' out1)" = 2 ] || fail "other draws where nothing is drawn: $(cat out1)"
"$STET" reproduce table1 $some --models bilstm --defenses eibc --no-run >out 2>err || fail "a row for another kind: $(cat err)"
grep -q "^EIBC" out && fail "EIBC is for the CNN alone"

# The texts that training holds out are not attacked for more training texts, whatever their share and seed.
"$STET" reproduce table1 --quick --texts 200 --models cnn --defenses augment --attacks pwws --limit 2 --no-certify --seeds 3 -o held -- --valid=0.2 >out 2>err ||
    fail "augment with other texts held out: $(cat err)"
grep -q '"valid":0.2,.*"seed":3,' held/cnn_augment_seed-3/flipped.json || fail "what augment left alone: $(cat held/cnn_augment_seed-3/flipped.json)"
"$STET" reproduce table1 --quick --texts 200 --models cnn --defenses augment --attacks pwws --limit 2 --no-certify -o folds -- --fold 1of4 >out 2>err ||
    fail "augment with a fold held out: $(cat err)"
grep -q '"fold":"1of4"' folds/cnn_augment_seed-1/flipped.json || fail "augment attacked the fold: $(cat folds/cnn_augment_seed-1/flipped.json)"
# Three rounds of many seeds on the clock.
"$STET" reproduce time --steps 1 --texts 100 --models cnn --defenses standard --seeds 1,2,3,4,5,6,7,8,9,10,11 -o clock >out 2>err ||
    fail "time with many seeds: $(cat err)"
# Training texts stand in for those that an attack would flip.
"$STET" reproduce time --quick --models cnn --defenses standard,augment,mixada -o grown >out 2>err || fail "time of augmentation: $(cat err)"
[ "$(grep -cE "^(Augmentation|MixADA) +[0-9.]+ +[0-9.]+ +[0-9.]+ *$" out)" = 2 ] || fail "no time of augmentation: $(cat out)"
for row in augment mixada; do
    [ "$(wc -l <grown/time/cnn_${row}_seed-1_round-1/texts.jsonl)" = 50 ] || fail "$row: another number of texts"
    grep -q "\"augment-texts\":\"grown" grown/time/cnn_${row}_seed-1_round-1/time.json || fail "$row was timed without more texts"
done

# Every other row once. What votes make likely stands where proofs do, and is called that.
every="PGD-K FreeLB FreeLB++ TA-VAT InfoBERT RanMASK SAFER Text-CRS Encoding Augmentation"
"$STET" reproduce table1 --quick --models cnn --attacks pwws --limit 4 --jobs 2 -o q \
    --defenses pgd,freelb,freelb++,ta-vat,infobert,ranmask,safer,text-crs,encode,augment,smooth,certified >out 2>err ||
    fail "every row: $(cat err)"
for row in $every "stet: smoothed vectors, logit bound" "stet: worst case"; do
    grep -qF "$row " out && grep -F "$row " out | grep -q "full .* x .*±.*±" || fail "no figures of $row: $(cat out)"
done
for row in RanMASK SAFER; do
    grep "^$row " out | grep -q "likely [0-9.]*" || fail "$row is not certified by its votes: $(grep "$row" out)"
done
[ "$(grep -c "likely" out)" = 4 ] || fail "likely where nothing votes: $(cat out)"

# BERT, from random numbers: the rows that are asked for, the paper's figures beside.
"$STET" reproduce bert --quick --texts 200 --epochs 1 --defenses standard,ta-vat,gbm --attacks greedy --limit 2 -o b >out 2>err ||
    fail "bert: $(cat err)"
grep -q "^TA-VAT .*full .*±.*±" out || fail "no figures of TA-VAT: $(cat out)"
grep -q "paper prints  *93.0" out || fail "the paper's TA-VAT: $(cat out)"
grep -q '"greedy-proofs": *false' b/bert_ta-vat_seed-1/results/attack-greedy-original.json || fail "slow proofs that fail are asked for"
# A weight of the bound counts, whatever the row has; a row without proofs is measured all the same.
"$STET" reproduce beta --quick --texts 200 --models bert --betas 0,1e-3 --attacks textfooler --limit 2 -o weights >out 2>err || fail "beta of a BERT: $(cat err)"
for beta in 0 1e-3; do
    grep -q "\"beta\":\"$beta\"" weights/bert_gbm-${beta}_seed-1/train.json || fail "trained with another weight than $beta"
done
grep -q '"printed": [0-9]' weights/reproduce.json && fail "the paper's figure beside other weights"
"$STET" reproduce table1 --quick --texts 200 --models bert --defenses standard --attacks textfooler --limit 2 -o weights >out 2>err ||
    fail "table1 of a BERT: $(cat err)"

# A CSV of one's own, in several columns and of several classes.
python3 -c '
words = [["film", "movie"], ["goal", "match"], ["bank", "money"]]
print("id,topic,title,body")
for i in range(240):
    c = i % 3
    print(f"{i},{c+1},{words[c][i % 2]} {i % 7},\"the {words[c][0]} and, the {words[c][1]} of {i % 5}\"")' >own.csv
printf '{"film": ["movie"], "goal": ["match"], "bank": ["money"]}' >own.json
"$STET" reproduce table1 --data own.csv --label topic --text title,body --synonyms own.json --paper-synonyms own.json \
    --paper yahoo --quick --models cnn --defenses standard,sem --attacks pwws -o own >out 2>err || fail "own CSV: $(cat err)"
grep -q "paper prints  *72.6  *6.8" out || fail "Yahoo's figures: $(cat out)"
grep -q "Yahoo! Answers" out || fail "whose figures: $(tail -5 out)"

# A run that fails is named, the others stand.
"$STET" reproduce table1 --data own.csv --label topic --text title,body --synonyms own.json --paper-synonyms own.json \
    --quick --models cnn --defenses standard --attacks pwws -o bad -- --vectors none.txt >out 2>err
[ $? = 1 ] || fail "a failed run should give status 1: $(cat err)"
grep -q "bad/cnn_standard_seed-1: failed: stet: none.txt" err || fail "stderr: $(cat err)"
grep -q "1 of 1 runs failed" err || fail "stderr: $(cat err)"
exit $failed
