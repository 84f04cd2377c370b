#!/usr/bin/env bash
# README.md does what it says: its blocks run in order, in a scratch copy of the project whose build is the one under
# test. Nothing is installed or built. Arguments: the root of the project, the folder with the command; with --update,
# README.md is rewritten with what the commands print now.
#
#   ```sh    runs; directory and PATH carry over to the next block. Its last comment `# exits N` is the exit code that
#            is expected, else 0. In ./dev, `check` only plans, and a verb that installs or builds must merely exist.
#   ```text  is the stdout of the block before it, to the letter but for the version, the CPU's name and the seconds.
#   ```c     its first line says `/* NEW: OLD with this in place of its manifest */`: it takes the place of OLD's
#            `static const ng_kernel …;` and must compile without a warning.
#   Other fences are not allowed.
set -euo pipefail

root=$(readlink -f "$1")
bin=$(readlink -f "$2")
update=${3:-}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
project=$work/project
mkdir -p "$project/build/release" "$project/kernels" "$work/blocks"
cp -r "$root/kernels/abi" "$project/kernels/"
ln -s "$bin" "$project/build/release/bin"
cat >"$project/dev" <<STUB
#!/usr/bin/env bash
verb=\$1
shift
"$root/dev" help | grep -q "^\./dev \$verb" || { echo "./dev has no verb \$verb" >&2; exit 2; }
case "\$verb" in
  run) exec "$bin/normgate" "\$@" ;;
  check) exec "$bin/normgate" check --dry-run "\$@" ;;
esac
STUB
chmod +x "$project/dev"

# Each block is a file NUMBER.KIND.LINE, LINE where it begins.
awk -v folder="$work/blocks" '
  /^```/ && file == "" { number++; file = sprintf("%s/%03d.%s.%d", folder, number, substr($0, 4), NR); printf "" >file; next }
  /^```/ { close(file); file = ""; next }
  file != "" { print >file }
  END { if (file != "") exit 1 }' "$root/README.md" || { echo 'README.md: a fence is not closed'; exit 1; }

fail() {
  printf 'README.md:%s: %s\n' "$line" "$1"
  failures=$((failures + 1))
}
without_what_varies() {
  sed -E -e 's/^normgate [0-9]+\.[0-9]+\.[0-9]+$/normgate VERSION/' -e 's/^cpu      .*/cpu      CPU/' \
    -e 's/[0-9.]+ seconds$/TIME seconds/' "$1"
}

failures=0
runs=0
compared=0
manifests=0
printf 'cd %q\n' "$project" >"$work/state"
: >"$work/stdout"
for block in "$work"/blocks/*; do
  IFS=. read -r _ kind line <<<"$(basename "$block")"
  case "$kind" in
    sh)
      runs=$((runs + 1))
      expected=$(sed -nE 's/.*# exits ([0-9]+)$/\1/p' "$block" | tail -n 1)
      {
        echo 'set -e'
        cat "$work/state"
        printf "trap 'printf \"cd %%q\\\\nPATH=%%q\\\\n\" \"\$PWD\" \"\$PATH\" >%q' EXIT\n" "$work/state"
        cat "$block"
      } >"$work/script"
      status=0
      NO_COLOR=1 bash "$work/script" >"$work/stdout" 2>"$work/stderr" </dev/null || status=$?
      if [ "$status" -ne "${expected:-0}" ]; then
        fail "exit code $status, not ${expected:-0}"
        cat "$block" "$work/stdout" "$work/stderr"
      fi
      ;;
    text)
      compared=$((compared + 1))
      if [ -n "$update" ]; then
        cp "$work/stdout" "$block.now"
      elif ! diff <(without_what_varies "$block") <(without_what_varies "$work/stdout") >"$work/difference"; then
        fail "not what the command prints now (< README.md, > now); to rewrite the blocks: $0 $root $bin --update"
        cat "$work/difference"
      fi
      ;;
    c)
      manifests=$((manifests + 1))
      names=$(sed -nE '1s|^/\* ([a-z_]+\.c): ([a-z_]+\.c) with this in place of its manifest \*/$|\1 \2|p' "$block")
      read -r new old <<<"$names"
      folder=$(. "$work/state" && pwd)
      if [ -z "$names" ] || [ ! -f "$folder/$old" ]; then
        fail 'the first line does not name a file to be made and one that is there'
        continue
      fi
      awk -v block="$block" '
        /^static const ng_kernel [a-z_]+ = \{/ { while ((getline text <block) > 0) print text; inside = 1; found++ }
        !inside { print }
        /;$/ { inside = 0 }
        END { exit found != 1 }' "$folder/$old" >"$folder/$new" || fail "$old has no manifest, or several"
      cc -std=c99 -Wall -Wextra -Wpedantic -Werror -fsyntax-only "$folder/$new" || fail "$new does not compile"
      ;;
    *) fail "a fence '$kind'; sh, text and c are known" ;;
  esac
done

if [ -n "$update" ]; then
  awk -v folder="$work/blocks" '
    /^```/ && !inside { inside = 1; number++; kind = substr($0, 4); now = sprintf("%s/%03d.%s.%d.now", folder, number, kind, NR); print
      if (kind == "text") while ((getline text <now) > 0) print text
      next }
    /^```/ { inside = 0 }
    !inside || kind != "text" { print }' "$root/README.md" >"$work/README.md"
  cp "$work/README.md" "$root/README.md"
fi

# What the page promises in words; the blocks above are where it is shown.
line=0
grep -lq 'looks like one-pass variance' "$work"/blocks/*.text.* || fail 'no block shows a one-pass variance found'
grep -lq '^PASSED on 1 of 1 target$' "$work"/blocks/*.text.* || fail 'no block shows a pass'
if [ "$runs" -lt 5 ] || [ "$compared" -lt 3 ] || [ "$manifests" -lt 1 ]; then
  fail "only $runs commands, $compared outputs and $manifests manifests were found"
fi
for path in $(grep -oE '`(kernels|properties|reference|reports|cmake|gate|tests)/[a-z_/.]*`' "$root/README.md" | tr -d '`'); do
  [ -e "$root/$path" ] || fail "$path does not exist"
done
[ "$failures" -eq 0 ] || exit 1
printf '%s blocks of commands ran, %s outputs and %s manifests are as they stand there\n' "$runs" "$compared" "$manifests"
