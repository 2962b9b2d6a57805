package cli

import (
	"encoding/json"
	"fmt"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/disk"
	"fettle.dev/fettle/internal/measure/etcd"
	"fettle.dev/fettle/internal/measure/memory"
	"fettle.dev/fettle/internal/measure/postgres"
	"fettle.dev/fettle/internal/requests/load"
	"fettle.dev/fettle/internal/requests/load/mqtt"
	"fettle.dev/fettle/internal/ui"
)

// results has an empty result for each kind of benchmark and load.
var results = map[string]func() result{
	disk.Kind:        func() result { return &disk.Evidence{} },
	"bench-memory":   func() result { return &memory.Result{} },
	"bench-postgres": func() result { return &postgres.Result{} },
	"bench-etcd":     func() result { return &etcd.Result{} },
	load.Kind:        func() result { return &load.Result{} },
	mqtt.Kind:        func() result { return &mqtt.Result{} },
}

// showBench prints the record of a benchmark in the same way as the benchmark. word names the
// run for the next command.
func (a *app) showBench(r *evidence.Run, word string) error {
	of, known := results[r.Kind]
	if !known { // of a later version, or of kubectl fettle
		h := ui.Headline{}
		h.Line("%s: %s", r.Kind, r.Verdict)
		return a.result(RunResult{h, r}, nil)
	}
	body := of()
	if err := json.Unmarshal(r.Body, body); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	return a.printRun(r, word, body, nil)
}
