package cli

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"fettle.dev/fettle/internal/guide/rule"
	"fettle.dev/fettle/internal/host"
	components "fettle.dev/fettle/internal/product/table"
)

const aLimit = "systemd tells whose process it is, and none runs in the root: TestServices of internal/product/table goes round in a machine with systemd"

// noRound are the rules with a fix of a product that no round tries with the
// product running, each with the reason.
var noRound = map[string]string{
	"E12": aLimit, "M08": aLimit, "R05": aLimit,
	"Y01": "which of the Sidekiqs is whose is told by the unit, and no systemd runs in the root: internal/product/foreman has its files alone",
}

// Each fix that changes a setting of a product, or one of the kernel for it, is
// tried next to the real one. A new rule without a round fails here.
func TestEveryFixOfAProductHasARound(t *testing.T) {
	tried := map[string]string{}
	for _, r := range slices.Concat(filesOfProducts, kernelForProducts, []round{puppetServer}) {
		for _, id := range r.wrong {
			if tried[id] != "" {
				t.Errorf("%s has two rounds: %s and %s%s", id, tried[id], r.product, r.kind)
			}
			tried[id] = r.product + r.kind
		}
	}
	c := loadCatalogue(t)
	kinds := components.Kinds(host.Live())
	n := 0
	for _, r := range c.Rules() {
		if r.Fix == nil || len(r.Fix.Changes) == 0 || !ofProduct(r, slices.Collect(maps.Keys(kinds))) {
			continue
		}
		n++
		why := noRound[r.ID]
		switch {
		case tried[r.ID] == "" && why == "":
			t.Errorf("%s: no round tries the fix of %s with the product running: add one to fix_rounds_test.go", r.At, r.ID)
		case tried[r.ID] != "" && why != "":
			t.Errorf("%s has a round with %s: it needs no reason for having none", r.ID, tried[r.ID])
		}
		delete(tried, r.ID)
	}
	for id := range noRound {
		if c.Rule(id) == nil {
			t.Errorf("there is no rule %s any more", id)
		}
	}
	for id, r := range tried {
		t.Errorf("the round of %s is of %s, which is no rule of a product with a fix that changes something", r, id)
	}
	if n < 30 {
		t.Errorf("%d rules of products have a fix: not the whole catalogue", n)
	}
}

// ofProduct says whether a rule is of a product, or what it changes is. Keys of
// custom-hiera.yaml are the installer's, which fettle rules test plays.
func ofProduct(r *rule.Rule, products []string) bool {
	for _, p := range r.Platforms {
		if slices.Contains(products, p) || p == "puppet" {
			return true
		}
	}
	return slices.ContainsFunc(r.Fix.Changes, func(w rule.Want) bool {
		kind, _, _ := strings.Cut(w.Name, ":")
		return kind != "hiera" && slices.Contains(products, kind)
	})
}
