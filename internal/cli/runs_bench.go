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

// showBench prints the record of a benchmark in the same way as the benchmark.
func (a *app) showBench(r *evidence.Run) error {
	if a.data() {
		return a.result(RunResult{Run: r}, nil)
	}
	switch r.Kind {
	case disk.Kind:
		return shown(a, r, disk.Print)
	case "bench-memory":
		return shown(a, r, memory.Print)
	case "bench-postgres":
		return shown(a, r, postgres.Print)
	case "bench-etcd":
		return shown(a, r, etcd.Print)
	case load.Kind:
		return shown(a, r, load.Print)
	case mqtt.Kind:
		return shown(a, r, mqtt.Print)
	}
	return a.result(RunResult{Run: r}, nil)
}

func shown[Body any](a *app, r *evidence.Run, print func(*ui.Screen, *evidence.Run, *Body)) error {
	var b Body
	if err := json.Unmarshal(r.Body, &b); err != nil {
		return fmt.Errorf("run %s: %w", r.ID, err)
	}
	print(a.screen, r, &b)
	return nil
}
