// Command etcd-releases writes a table of etcd's releases, internal/product/etcd/releases.txt: the
// flags of each release with their kinds and defaults, and the keys of its configuration file. It
// downloads the released modules and reads their source; it does not build or run them.
//
//	cd test/etcd-releases && go run .
package main

import (
	"fmt"
	"os"

	"fettle.dev/fettle/test/kubelet-releases/modules"
)

// release is a minor version of etcd and the module that has its server.
type release struct{ name, module, version string }

// releases are the versions to read, one of each release, oldest first. No version of 3.4 is valid
// for a Go module: this is v3.4.13, and backported are flags of later versions.
var releases = []release{
	{"3.4", "go.etcd.io/etcd", "v0.5.0-alpha.5.0.20200910180754-dd1b699fc489"},
	{"3.5", "go.etcd.io/etcd/server/v3", "v3.5.35"},
	{"3.6", "go.etcd.io/etcd/server/v3", "v3.6.12"},
	{"3.7", "go.etcd.io/etcd/server/v3", "v3.7.3"},
}

// backported are flags that v3.4.23 has according to the real program (TestFlagsOfRealServers), but
// v3.4.13 does not have. Each is also a key of the file.
var backported = map[string]flag{
	"experimental-enable-lease-checkpoint-persist": {kind: "bool"},
	"experimental-warning-apply-duration":          {kind: "duration"},
	"max-concurrent-streams":                       {kind: "uint"},
}

// table is the path of the output in the host module.
const table = "../../internal/product/etcd/releases.txt"

func main() {
	text, err := generate(true)
	if err == nil {
		err = os.WriteFile(table, []byte(text), 0o644)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// download returns the directory of each module, by MODULE@VERSION.
func download(network bool) (map[string]string, error) {
	var all []string
	for _, r := range releases {
		all = append(all, r.module+"@"+r.version)
	}
	return modules.Download(all, network)
}
