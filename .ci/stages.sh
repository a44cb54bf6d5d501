# Sourced by the programs beside it: stop at the first failure, say how long each stage takes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
mkdir -p build
stages="build/ci_$(basename "$0").txt"
: >"$stages"

# stage COMMAND ...: run it, note its seconds for `make figures`.
stage() {
	echo "== $*"
	local start=$SECONDS
	"$@"
	echo "$((SECONDS - start)) $*" >>"$stages"
	echo "== $((SECONDS - start)) s: $*"
}
