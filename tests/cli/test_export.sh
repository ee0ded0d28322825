#!/bin/sh
# Questions for other verifiers: files, mistakes; and, with onnx and onnxruntime, what others make of them.
. "$(dirname "$0")/cli_test.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$TMP" || exit 1

repeat 30 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n1\ta good film\n0\tbad\n' >train.tsv
vectors this film a is good fine great bad poor awful and >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"], "film": ["fine"], "this": ["bad"]}' >sets.json
"$STET" train -q --data train.tsv --vectors vectors.txt --filters 3 --kernels 1,2,3 --lr 0.02 --batch 8 --epochs 6 -o cnn >/dev/null || fail "train"
for model in "scored --word-scores --filters 3 --kernels 1,2" "dense --word-layer 5 --dense 4 --filters 3 --kernels 1,2" "sum --model sum" "net --model sum --score-hidden 4"; do
    "$STET" train -q --data train.tsv --vectors vectors.txt --lr 0.05 --batch 8 --epochs 6 -o $model >/dev/null || fail "train $model"
done
"$STET" train -q --data train.tsv --vectors vectors.txt --model bilstm --hidden 4 --epochs 1 -o lstm >/dev/null || fail "train"
for model in cnn scored dense sum net; do
    "$STET" certify $model --data train.tsv --synonyms sets.json --limit 24 --complete --no-record --export q-$model -o $model.jsonl >/dev/null ||
        fail "certify $model --export"
    [ "$(ls q-$model/*.onnx | wc -l)" -gt 3 ] || fail "no questions about $model"
    for q in q-$model/*.onnx; do
        grep -q "declare-const Y_1 Real" "${q%.onnx}.vnnlib" || fail "$q has no property"
    done
done
for model in scored sum net; do # networks that read scores, and only those
    grep -q scores.words "$(ls q-$model/*.onnx | head -1)" || fail "no scores in the question about $model"
done
! grep -q scores.words "$(ls q-cnn/*.onnx | head -1)" || fail "scores in the question about a CNN without any"
expect 1 "no questions can be exported about this model of kind 'bilstm'" "$STET" certify lstm --data train.tsv --synonyms sets.json --no-record --export other
[ ! -e other ] || fail "a folder was made for nothing"
[ "$failed" = 0 ] || exit $failed

python=${STET_PYTHON:-python3}
if ! "$python" -c 'import onnx, onnxruntime, numpy' 2>/dev/null; then
    echo "skipped: onnx and onnxruntime are not installed for $python"
    exit 77
fi
for model in cnn scored dense sum net; do
    "$python" "$here/onnx_question.py" "$STET" $model $model.jsonl q-$model || fail "$python disagrees about $model"
done
exit $failed
