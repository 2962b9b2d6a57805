package cli

import (
	"encoding/json"
	"fmt"

	"fettle.dev/fettle/internal/bench/disk"
	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/load"
	"fettle.dev/fettle/internal/load/mqtt"
	"fettle.dev/fettle/internal/report"
	"fettle.dev/fettle/internal/ui"
)

// showBench prints the record of a bench as the bench has printed it.
func (a *app) showBench(r *evidence.Run) error {
	if a.data() {
		return a.result(BenchResult{r}, nil)
	}
	switch r.Kind {
	case disk.Kind:
		return shown(a, r, report.Disk)
	case "bench-memory":
		return shown(a, r, report.BenchMemory)
	case "bench-postgres":
		return shown(a, r, report.BenchPostgres)
	case "bench-etcd":
		return shown(a, r, report.BenchEtcd)
	case load.Kind:
		return shown(a, r, report.LoadHTTP)
	case mqtt.Kind:
		return shown(a, r, report.LoadMQTT)
	}
	return a.result(BenchResult{r}, nil)
}

func shown[Body any](a *app, r *evidence.Run, print func(*ui.Screen, *evidence.Run, *Body)) error {
	var b Body
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	print(a.screen, r, &b)
	return nil
}
