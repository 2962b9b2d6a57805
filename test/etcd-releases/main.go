// Command etcd-releases writes what etcd of each release knows into
// internal/product/etcd/releases.txt: its flags with their kinds and defaults, and the keys
// of its configuration file. It downloads the released modules and reads their source;
// nothing of them is built or run.
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

// releases are the versions that are read, one of each release, oldest first. 3.4 has no
// version that a module may have: this is v3.4.13, and backported is what later ones have.
var releases = []release{
	{"3.4", "go.etcd.io/etcd", "v0.5.0-alpha.5.0.20200910180754-dd1b699fc489"},
	{"3.5", "go.etcd.io/etcd/server/v3", "v3.5.35"},
	{"3.6", "go.etcd.io/etcd/server/v3", "v3.6.12"},
	{"3.7", "go.etcd.io/etcd/server/v3", "v3.7.3"},
}

// backported are flags that v3.4.23 has, by the real program (TestFlagsOfRealServers), and
// v3.4.13 has not. Each is a key of the file too.
var backported = map[string]flag{
	"experimental-enable-lease-checkpoint-persist": {kind: "bool"},
	"experimental-warning-apply-duration":          {kind: "duration"},
	"max-concurrent-streams":                       {kind: "uint"},
}

// table is where the host module has what is written.
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
