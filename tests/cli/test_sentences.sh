#!/bin/sh
# What a person types first: the models of the demonstration are right about twenty obvious sentences of 2 to 8 words.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1
"$STET" demo --limit 20 -o demo -q >/dev/null || fail "demo"
cat >sentences <<'END'
positive	I loved it
positive	Great movie
positive	What a wonderful film
positive	A beautiful and moving story
positive	I really enjoyed this film
positive	Best film ever
positive	Very funny and clever
positive	The acting is superb
positive	A masterpiece
positive	Not bad at all
negative	I hated it
negative	Terrible awful boring film
negative	What a waste of time
negative	The plot is stupid
negative	I did not like it
negative	Worst movie ever
negative	Very boring
negative	Not good at all
negative	The acting was awful
negative	A complete mess
END
cut -f2 sentences >texts
for model in standard smoothed robust; do
    "$STET" predict demo/$model --file texts >answers || fail "predict $model"
    cut -f1 sentences | paste - answers | awk '$1 != $2' >wrong
    [ -s wrong ] && fail "$model: $(cat wrong)"
    [ "$(wc -l <answers)" = 20 ] || fail "$model answered $(wc -l <answers) of 20"
done
exit $failed
