package openshift

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"testing"

	"fettle.dev/fettle/internal/testkit/sizing"
)

// More is never answered by less, for 400 random clusters; every document is read
// back strictly.
func TestMonotone(t *testing.T) {
	f := sizing.Figures(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	versions := f.Table("openshift-releases").Editions[0].Rows
	for range 400 {
		pods := 1 + rnd.IntN(60000)
		said := []string{"version", versions[rnd.IntN(len(versions))].Key, "pods-per-node", strconv.Itoa(16 + rnd.IntN(2000)), "node-cores", strconv.Itoa(4 + rnd.IntN(60)), "node-ram", strconv.Itoa(8 + rnd.IntN(500))}
		if rnd.IntN(2) == 0 {
			said = append(said, "apps", fmt.Sprintf("- {name: a, quantity: %d, cpu: %dm, memory: %dMi}", 1+rnd.IntN(pods), 1+rnd.IntN(3000), 1+rnd.IntN(4000)), "overcommit", strconv.Itoa(rnd.IntN(50)))
		}
		if rnd.IntN(2) == 0 {
			said = append(said, "request-rate", strconv.Itoa(1+rnd.IntN(1e6)), "route", []string{"none", "edge", "passthrough", "re-encrypt"}[rnd.IntN(4)])
		}
		small, err := sizing.Ask(f, New(), append(said, "pods", strconv.Itoa(pods))...)
		if err != nil {
			if !sizing.BadInput(err) {
				t.Fatal(said, err)
			}
			continue
		}
		sizing.Sound(t, small)
		checkMonitoring(t, small)
		large, err := sizing.Ask(f, New(), append(said, "pods", strconv.Itoa(pods+1+rnd.IntN(10000)))...)
		if err != nil {
			if !sizing.BadInput(err) {
				t.Fatal(said, err)
			}
			continue
		}
		for _, key := range [][2]string{{"nodes", "for_pods"}, {"nodes", "workers"}, {"nodes", "all"}, {"control plane", "cores"}, {"control plane", "ram"}, {"prometheus", "storage"}, {"prometheus", "ram"}, {"network", "nodes_max"}} {
			a, b := small.Value(key[0], key[1]), large.Value(key[0], key[1])
			if a == nil || b == nil {
				continue // beyond the documents
			}
			if asFloat(a.Value) > asFloat(b.Value) {
				t.Fatalf("%v: %s is %v for %d pods and %v for more", said, key[1], a.Value, pods, b.Value)
			}
		}
	}
}

func asFloat(v any) float64 {
	if n, ok := v.(int); ok {
		return float64(n)
	}
	return v.(float64)
}
