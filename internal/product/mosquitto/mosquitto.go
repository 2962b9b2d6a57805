// Package mosquitto reads the configuration of Mosquitto, the MQTT broker of remote execution, as
// the broker does. It queries the broker over MQTT, and reloads or restarts it.
package mosquitto

import (
	"context"
	"strconv"
	"strings"

	"fettle.dev/fettle/internal/fact"
	"fettle.dev/fettle/internal/product"
	"fettle.dev/fettle/internal/product/conf"
)

// Product is mosquitto.
var Product = daemon.Product()

type (
	input     = product.Input[settings, report]
	installed = product.Instance[settings, report]
)

var daemon = &product.Daemon[settings, report]{
	Name: "mosquitto", Doc: "mosquitto, the MQTT broker of remote execution",
	Parameters: parameters,
	Inputs:     inputs,
	Conf:       conf.Product{Syntax: syntax{}, Roots: rootsOf, Instances: instances, Canonical: conf.WholeNumber, Check: check, CheckHere: keeps},
	Read:       readSettings,
	Place:      settings.place,
	Program:    "mosquitto",
	Processes:  processes,
	OpenFiles:  true,
	Control: func() *product.Control {
		return &product.Control{Unit: product.Service("mosquitto.service"), Reload: product.ReloadBy("HUP"), Ready: ready, Start: start}
	},
	Restart:      needsRestart,
	SilentReload: true,
	Ask:          func(ctx context.Context, i *installed) (report, error) { return question(ctx, i.Host, i.Main, i.Files) },
	Reported:     func(r report, key string) string { return r.Limits[key] },
	ReportedBy:   "CONNACK of MQTT 5",
}

var inputs = []input{
	{Name: "version", Type: fact.Text, Doc: "version of the running broker, or of the package", Answer: func(i *installed) fact.Answer {
		if _, v, ok := strings.Cut(i.Report.Sys["$SYS/broker/version"], "version "); ok {
			return fact.Answer{Value: v, At: "$SYS/broker/version"}
		}
		return i.PackageVersion()
	}},
	{Name: "open_files_limit", Type: fact.Number, Doc: "limit of open files of the running broker; each client needs one", From: product.FromProcess, Answer: (*installed).OpenFilesLimit},
	{Name: "files_open", Type: fact.Number, Doc: "open files and connections of the broker", Answer: (*installed).FilesOpen},
	{Name: "connections_limit", Type: fact.Number, Doc: "max_connections of all listeners together; absent if one of them has no limit", From: product.FromFiles, Answer: func(i *installed) fact.Answer {
		if n, at := i.Files.connections(); n >= 0 {
			return fact.Answer{Value: n, At: at}
		}
		return fact.Answer{At: i.Main}
	}},
	topic("clients", "clients that are connected", "$SYS/broker/clients/connected"),
	topic("messages_dropped", "messages dropped since the start because a queue was full", "$SYS/broker/publish/messages/dropped"),
	{Name: "started_since_change", Type: fact.Truth, Doc: "whether the running broker was started after its files were changed", Answer: (*installed).StartedSinceChange},
}

// topic returns an input that is answered with the number in a topic of the broker.
func topic(name, doc, topic string) input {
	return input{Name: name, Type: fact.Number, Doc: doc, From: product.FromReport, Answer: func(i *installed) fact.Answer {
		n, err := strconv.ParseFloat(i.Report.Sys[topic], 64)
		if err != nil {
			return fact.Answer{Unknown: "the broker does not publish " + topic, At: i.Main}
		}
		return fact.Answer{Value: n, At: topic}
	}}
}
