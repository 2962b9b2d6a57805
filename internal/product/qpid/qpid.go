// Package qpid reads the configuration of qpidd, the message broker of katello-agent and Pulp 2 on
// Satellite before 6.15. It determines the running options, and restarts the broker.
package qpid

import (
	"time"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Product is qpidd.
var Product = daemon.Product()

type installed = product.Instance[instance, struct{}]

// daemon marks all options for Restart: the broker reads its options only at start.
var daemon = &product.Daemon[instance, struct{}]{
	Name: "qpid", Doc: "qpidd, the message broker of Satellites before 6.15", Packages: []string{"qpid-cpp-server", "qpidd"},
	Parameters: parameters,
	Inputs:     inputs,
	Conf:       conf.Product{Syntax: syntax{}, Roots: func(*host.Host) []string { return []string{"/etc"} }, Instances: instances, Canonical: conf.WholeNumber, Check: check},
	Read:       read,
	Place:      instance.place,
	Program:    "qpidd",
	Processes:  processes,
	OpenFiles:  true,
	Control: func() *product.Control {
		return &product.Control{
			Unit: product.Service(service), Check: configTest, Ready: ready, Start: start,
			Patience: 90 * time.Second, // qpidd reads the journals of durable queues
		}
	},
	Restart: func(string) bool { return true },
}

var inputs = []product.Input[instance, struct{}]{
	{Name: "version", Type: fact.Text, Doc: "version of the package", Answer: (*installed).PackageVersion},
	{Name: "open_files_limit", Type: fact.Number, Doc: "limit of open files of the running broker, or of its unit; a connection needs one, a durable queue several", Answer: func(i *installed) fact.Answer {
		if i.RunErr == nil && i.Run.Main.OpenFiles > 0 {
			return i.OpenFilesLimit()
		}
		u := i.Files.unit
		if u == nil {
			return fact.Answer{Unknown: service + " is not in this copy", At: i.Main}
		}
		if l, ok := u.Limit("NOFILE"); ok {
			return fact.Answer{Value: min(l.Soft, 1<<30), At: l.At}
		}
		return fact.Answer{Value: 1024.0, At: "systemd's default for " + service}
	}},
	{Name: "files_open", Type: fact.Number, Doc: "open files and connections of the broker", Answer: (*installed).FilesOpen},
	{Name: "started_since_change", Type: fact.Truth, Doc: "whether the running broker was started after its file was changed", Answer: (*installed).ReadSinceChange},
}
