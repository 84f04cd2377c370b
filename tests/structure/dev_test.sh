#!/usr/bin/env bash
# ./dev installs what is missing and nothing else, and stops with 2 where it cannot. Its tools are stand-ins in a
# folder of their own, so nothing is installed here. Argument: the root of the project.
set -euo pipefail

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$work/project/cmake" "$work/debian" "$work/other"
cp "$1/dev" "$work/project/"
cp "$1/cmake/packages.txt" "$work/project/cmake/"

for tool in bash env awk sed grep dirname readlink cat tail head mkdir tr cut; do
  ln -s "$(command -v "$tool")" "$work/other/$tool"
done
cp -P "$work"/other/* "$work/debian/"
# Everything is installed but the packages named in the file `missing`, until apt-get has run.
cat >"$work/debian/dpkg-query" <<STUB
#!/usr/bin/env bash
for name in "\${@:3}"; do grep -qx "\$name" "$work/missing" || echo "\$name installed"; done
STUB
cat >"$work/debian/apt-get" <<STUB
#!/usr/bin/env bash
echo "apt-get \$*" >>"$work/calls"
[ "\$1" != install ] || : >"$work/missing"
STUB
printf '#!/usr/bin/env bash\nexec "$@"\n' >"$work/debian/sudo"
printf '#!/usr/bin/env bash\necho 1000\n' >"$work/debian/id"
chmod +x "$work"/debian/{dpkg-query,apt-get,sudo,id}

expect() { # expect CODE PATH-FOLDER ARGS… : runs dev with that PATH alone; what it says lands in `said`
  local wanted=$1 path=$2 status=0
  shift 2
  : >"$work/calls"
  env -u CI PATH="$work/$path" bash "$work/project/dev" "$@" >"$work/said" 2>&1 </dev/null || status=$?
  [ "$status" -eq "$wanted" ] || { echo "dev $*: exit code $status, not $wanted"; cat "$work/said"; exit 1; }
}
has() { grep -qF -- "$2" "$work/$1" || { echo "'$2' is not in $1:"; cat "$work/$1"; exit 1; }; }

: >"$work/missing"
expect 0 debian setup
[ ! -s "$work/calls" ] || { echo 'apt-get ran although nothing was missing'; exit 1; }

printf 'libhwy-dev\ncmake\n' >"$work/missing"
expect 2 debian setup # nobody there to ask
has said 'sudo apt-get install --yes --no-install-recommends cmake libhwy-dev'
[ ! -s "$work/calls" ] || { echo 'apt-get ran unasked'; exit 1; }
expect 0 debian setup --yes
[ "$(cat "$work/calls")" = $'apt-get update\napt-get install --yes --no-install-recommends cmake libhwy-dev' ] ||
  { cat "$work/calls"; exit 1; }
expect 0 debian setup --yes
[ ! -s "$work/calls" ] || { echo 'the second run installed again'; exit 1; }

expect 2 other check
has said 'missing tools: cmake'
has said 'libboost1.81-dev'
expect 2 debian
expect 2 debian nonsense
expect 2 debian --preset nonsense build
