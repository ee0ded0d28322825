#!/bin/sh
# Questions for other verifiers: files, mistakes; and, with onnx and onnxruntime, what others make of them.
. "$(dirname "$0")/cli_test.sh"
here=$(cd "$(dirname "$0")" && pwd)
cd "$TMP" || exit 1

repeat 30 '1\tthis film is good and fine and great\n0\tthis film is bad and poor and awful\n1\ta good film\n0\tbad\n' >train.tsv
vectors this film a is good fine great bad poor awful and >vectors.txt
printf '{"good": ["fine", "great"], "bad": ["poor", "awful"], "film": ["fine"], "this": ["bad"]}' >sets.json
"$STET" train -q --data train.tsv --vectors vectors.txt --filters 3 --kernels 1,2,3 --lr 0.02 --batch 8 --epochs 6 -o cnn >/dev/null || fail "train"
"$STET" train -q --data train.tsv --vectors vectors.txt --model bilstm --hidden 4 --epochs 1 -o lstm >/dev/null || fail "train"
"$STET" certify cnn --data train.tsv --synonyms sets.json --limit 24 --complete --no-record --export questions -o cert.jsonl >/dev/null || fail "certify --export"
[ "$(ls questions/*.onnx | wc -l)" -gt 3 ] || fail "no questions"
for q in questions/*.onnx; do
    grep -q "declare-const Y_1 Real" "${q%.onnx}.vnnlib" || fail "$q has no property"
done
expect 1 "no questions can be exported about this model of kind 'bilstm'" "$STET" certify lstm --data train.tsv --synonyms sets.json --no-record --export other
[ ! -e other ] || fail "a folder was made for nothing"
[ "$failed" = 0 ] || exit $failed

python=${STET_PYTHON:-python3}
if ! "$python" -c 'import onnx, onnxruntime, numpy' 2>/dev/null; then
    echo "skipped: onnx and onnxruntime are not installed for $python"
    exit 77
fi
"$python" "$here/onnx_question.py" "$STET" cnn cert.jsonl questions || fail "$python disagrees"
exit $failed
