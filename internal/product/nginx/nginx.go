// Package nginx reads the configuration of nginx as the server does. It detects whether the running
// server has read it, and reloads the server.
package nginx

import (
	"strconv"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
	"fettle.dev/fettle/internal/unit"
)

// Product is nginx.
var Product = daemon.Product()

type installed = product.Instance[settings, struct{}]

var daemon = &product.Daemon[settings, struct{}]{
	Name: "nginx", Doc: "nginx, web server and proxy", Packages: []string{"nginx", "nginx-core", "nginx-server"},
	Parameters: parameters,
	Inputs:     inputs,
	Conf:       conf.Product{Syntax: syntax{}, Roots: rootsOf, Instances: instances, Canonical: conf.WholeNumber, Check: check},
	Read:       readSettings,
	Place:      settings.place,
	Program:    "nginx",
	Processes:  processes,
	OpenFiles:  true,
	Control: func() *product.Control {
		return &product.Control{Unit: product.Service("nginx.service"), Check: configTest, Reload: reload, Ready: ready}
	},
	DryRun: dryRun,
}

var inputs = []product.Input[settings, struct{}]{
	{Name: "version", Type: fact.Text, Doc: "version of the package", Answer: (*installed).PackageVersion},
	{Name: "workers", Type: fact.Number, Doc: "worker_processes as a number: auto is one for each CPU", From: product.FromFiles, Answer: workers},
	{Name: "workers_running", Type: fact.Number, Doc: "workers that serve now", From: product.FromProcess, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: float64(len(i.Run.Children)), At: "/proc"}
	}},
	{Name: "open_files_limit", Type: fact.Number, Doc: "files that a running worker may have open", From: product.FromProcess, Answer: func(i *installed) fact.Answer {
		if len(i.Run.Children) == 0 {
			return fact.Answer{Unknown: "nginx runs no worker", At: "/proc"}
		}
		return i.OpenFilesLimit()
	}},
	{Name: "files_open", Type: fact.Number, Doc: "open files and connections of the busiest worker", Answer: (*installed).FilesOpen},
	{Name: "listen_backlog", Type: fact.Number, Doc: "longest listen queue that a socket requests", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		if n, at := i.Files.backlog(); n > 0 {
			return fact.Answer{Value: n, At: at}
		}
		return fact.Answer{At: i.Main} // nginx listens nowhere
	}},
	{Name: "upstreams_without_keepalive", Type: fact.List, Doc: "upstream groups of http whose connections are closed after each request", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		return fact.Answer{Value: i.Files.closing(), At: i.Main}
	}},
	{Name: "certificate_faults", Type: fact.List, Doc: "places in servers with client certificates where a client without one can get cached responses or forge an identity", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		faults, err := certificateFaults(i.Host, i.Files.files)
		if err != nil {
			return fact.Answer{Unknown: err.Error(), At: i.Main}
		}
		return fact.Answer{Value: faults, At: i.Main}
	}},
	{Name: "read_since_change", Type: fact.Truth, Doc: "whether the running server has read its files since they were changed", Answer: (*installed).ReadSinceChange},
}

// workers answers with the number of worker processes; auto means one for each online CPU.
func workers(i *installed) fact.Answer {
	f, ok := i.Files.get("worker_processes")
	if !ok {
		return fact.Answer{Value: 1.0, At: "the default of nginx"}
	}
	if n, err := strconv.ParseUint(f.value(), 10, 31); err == nil {
		return fact.Answer{Value: float64(n), At: f.String()}
	}
	const online = "/sys/devices/system/cpu/online"
	text, err := i.Host.Files.ReadFile(online)
	if err == nil {
		var cpus unit.CPUSet
		if cpus, err = unit.ParseCPUList(string(text)); err == nil {
			return fact.Answer{Value: float64(cpus.Len()), At: f.String()}
		}
	}
	return fact.Answer{Unknown: online + ": " + err.Error(), At: f.String()}
}
