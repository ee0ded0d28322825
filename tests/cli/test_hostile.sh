#!/bin/sh
# Class names, texts, folder names and result files written by an enemy: pages run no script and break no table, a
# terminal obeys nothing.
. "$(dirname "$0")/cli_test.sh"
cd "$TMP" || exit 1
esc=$(printf '\033') bel=$(printf '\007') csi=$(printf '\302\233') rlo=$(printf '\342\200\256')
bad="<img src=x onerror=alert(1)>$esc]0;owned$bel$csi""2J$rlo"
good='**b**|`c`[d](http://e.f)</title><script>alert(2)</script>'
row() { printf '"%s %s","%s"\n' "$1" "$2" "$3"; }
{
    echo text,label
    i=0
    while [ $i -lt 60 ]; do
        row "a dull <script>alert(3)</script> film$esc[2J" $i "$bad"
        row "a fine \"\"onload=alert(4)\"\" film | $csi" $i "$good"
        i=$((i + 1))
    done
} >data.csv
vectors a dull fine film script alert onload img src bland good >v.txt
folder="$(printf 'm\033[2J<b>|*x*')"
printf '{"dull":["bland","fine"],"fine":["good","dull"],"film":["script"]}' >n.json
"$STET" synonyms build --neighbours n.json -o s.subst -q >/dev/null 2>err || fail "sets: $(cat err)"
"$STET" train --data data.csv --vectors v.txt --epochs 3 --synonyms s.subst -o "$folder" -q 2>err || fail "train: $(cat err)"

# Everything that is printed, into one file.
all() { "$@" >>printed 2>>printed </dev/null; }
: >printed
all "$STET" data info data.csv
all "$STET" eval "$folder" --data data.csv
all "$STET" attack "$folder" --data data.csv --synonyms s.subst --attack greedy,pwws --html page.html --log log.jsonl
all "$STET" certify "$folder" --data data.csv --synonyms s.subst
all "$STET" predict "$folder" "a dull film$esc]0;owned$bel"
all "$STET" predict "$folder" --certify --synonyms s.subst "a dull film$esc]0;owned$bel"
all "$STET" predict "$folder" --json "a dull film$csi"
all "$STET" inspect "$folder"
all "$STET" eval "$folder/none$esc[31m" --data data.csv
all "$STET" eval "$folder" --data "none$esc[31m"
all "$STET" "tr$esc[31main"
all "$STET" train --data data.csv --vectors v.txt "--epo$csi" 3
[ -s printed ] || fail "nothing was printed"
for what in "$esc" "$bel" "$csi" "$rlo"; do
    grep -qF "$what" printed && fail "a terminal would obey: $(grep -F "$what" printed | head -n 1 | cat -v)"
done
grep -qF '\u001b]0;owned\u0007' printed || fail "control characters are not shown: $(head -n 5 printed)"

# A page: a result file that lies, folders and classes as above.
for f in "$folder"/results/certify*.json; do
    sed -i 's|"method": *"[^"]*"|"method": "x<script>alert(5)</script>\\u001b"|; s|"profile": *"[^"]*"|"profile": "<script>alert(6)</script>"|' "$f"
done
for f in "$folder"/results/attack*.json; do
    sed -i 's|"profile": *"[^"]*"|"profile": "<script>alert(6)</script>"|; s|"name": *"data.csv"|"name": "<script>alert(7)</script>"|' "$f"
done
"$STET" report "$folder" -o report.html -q || fail "report"
"$STET" report "$folder" --markdown >report.md || fail "report --markdown"
grep -q 'alert(5)' report.html || fail "the method is not on the page"
for page in report.html page-greedy.html; do
    [ "$(grep -c '<script' $page)" -le 1 ] || fail "$page has scripts of others: $(grep '<script' $page | head -n 3)"
    grep -q '<img' $page && fail "$page has an image of others"
    grep -q "unsafe-inline" $page && fail "$page allows inline code"
    grep -q "Content-Security-Policy" $page || fail "$page has no policy"
    grep -qF "$esc" $page && fail "$page has control characters"
    grep -q ' style="' $page && fail "$page has style attributes, which its policy forbids"
done
for page in report.md "$folder/README.md"; do
    grep -q '<script\|<img\|<b>' "$page" && fail "$page has markup of others: $(grep '<script\|<img\|<b>' "$page" | head -n 2)"
    grep -qF '](http:' "$page" && fail "$page has a link of others"
    grep -qF "$esc" "$page" && fail "$page has control characters"
done

# The policy names the page's own style and script, and nothing else runs.
if command -v python3 >/dev/null; then
    python3 - report.html page-greedy.html <<'END' || fail "hashes"
import base64, hashlib, re, sys
for path in sys.argv[1:]:
    page = open(path, encoding="utf-8", newline="").read()
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)[1]
    policy = policy.replace("&#39;", "'")
    parts = [("style", re.findall(r"<style>(.*?)</style>", page, re.S)), ("script", re.findall(r"<script>(.*?)</script>", page, re.S))]
    for name, found in parts:
        for text in found:
            want = "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"
            assert want in policy, f"{path}: {name} has hash {want}, the policy is {policy}"
END
fi
exit $failed
