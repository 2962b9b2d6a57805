#!/usr/bin/env bash
# The kubelet does not write CPU weights by the conversion of the library that it links.
#
# Kubernetes 1.37.2 links opencontainers/cgroups v0.0.7, whose ConvertCPUSharesToCgroupV2Value
# gives one CPU (1024 shares) the cpu.weight 100, the kernel's default. For the groups of pods,
# of the classes and of all pods it calls a function of its own instead (pkg/kubelet/cm,
# getCPUWeight), which gives 39, as in 1.29. Container runtimes call the library's: in one pod
# of one container the two groups have 39 and 100, and pods stand with 39 for a CPU against
# system.slice's 100, whatever the runtime's version.
#
# Runs both functions as the released modules have them. Seen:
#   shares 102 1024 2048
#   kubernetes v1.29.14: 4 39 79
#   kubernetes v1.37.2: 4 39 79
#   library of kubernetes v1.37.2: v0.0.7
#   cgroups v0.0.7: 17 100 174
set -euo pipefail
export GOFLAGS=-mod=mod GOWORK=off
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
cd "$work"

dir() { go mod download -json "$1" | sed -n 's/.*"Dir": "\(.*\)".*/\1/p'; }

# weights FILE FUNCTION ARGUMENT: what the function gives for 102, 1024 and 2048 shares.
weights() {
	rm -rf run && mkdir run
	{
		printf 'package main\n\nimport (\n\t"fmt"\n\t"math"\n)\n\nvar _ = math.Log2\n\n'
		sed -n "/^func $2(/,/^}/p" "$1"
		printf 'func main() {\n\tfor _, shares := range []uint64{102, 1024, 2048} {\n\t\tfmt.Print(%s(%s), " ")\n\t}\n}\n' "$2" "$3"
	} >run/main.go
	printf 'module run\n\ngo 1.24\n' >run/go.mod
	(cd run && go run . | sed 's/ $//')
}

links() { sed -n "s#^\(require \)\{0,1\}[[:space:]]*github.com/opencontainers/cgroups \(v[0-9.]*\).*#\2#p" "$1/go.mod" | head -n 1; }

expect() {
	echo "$1: $2"
	if [[ $2 != "$3" ]]; then
		echo "$1: want $3: the behavior has changed" >&2
		exit 1
	fi
}

echo "shares 102 1024 2048"
for version in v1.29.14 v1.37.2; do
	kubernetes=$(dir "k8s.io/kubernetes@$version")
	expect "kubernetes $version" "$(weights "$kubernetes/pkg/kubelet/cm/cgroup_manager_linux.go" getCPUWeight '&shares')" "4 39 79"
done
expect "library of kubernetes v1.37.2" "$(links "$kubernetes")" v0.0.7
expect "cgroups v0.0.7" "$(weights "$(dir github.com/opencontainers/cgroups@v0.0.7)/utils.go" ConvertCPUSharesToCgroupV2Value shares)" "17 100 174"
