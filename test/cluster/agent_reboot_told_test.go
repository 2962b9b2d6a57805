package cluster

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// transaction is one of fettle history.
type transaction struct {
	Transaction  int
	Kind, Result string
}

// done is the node's journal, in words: the kind and the result of each transaction.
func (r *rebooted) done() (words []string) {
	r.Helper()
	for _, tx := range r.journal() {
		words = append(words, tx.Kind+" "+tx.Result)
	}
	return words
}

func (r *rebooted) journal() []transaction {
	r.Helper()
	var h struct{ Transactions []transaction }
	if err := json.Unmarshal([]byte(r.g.must("fettle history --output json 2>/dev/null")), &h); err != nil {
		r.Fatal(err)
	}
	return h.Transactions
}

// transactions waits until the node's journal has these, if any are named, and returns them.
func (r *rebooted) transactions(want ...string) []transaction {
	r.Helper()
	if len(want) > 0 {
		r.c.Wait("the transactions of the journal", bootPatience, func(context.Context) error {
			if got := r.done(); !slices.Equal(got, want) {
				return fmt.Errorf("%q, want %q", got, want)
			}
			return nil
		})
	}
	return r.journal()
}

// history: each switch is in the annotation, and a boot is not one.
func (r *rebooted) history(done []transaction) {
	r.Helper()
	var want []int
	for _, tx := range done {
		if tx.Kind == "tune" && tx.Result == "done" {
			want = append(want, tx.Transaction)
		}
	}
	r.c.Wait("the history", bootPatience, func(ctx context.Context) error {
		o, err := r.profiles.Get(ctx, "node1", metav1.GetOptions{})
		if err != nil {
			return err
		}
		var h struct{ Switches []struct{ Transaction int } }
		text := o.GetAnnotations()["fettle.dev/history"]
		if err := json.Unmarshal([]byte(text), &h); err != nil {
			return fmt.Errorf("%q: %w", text, err)
		}
		var got []int
		for _, s := range h.Switches {
			got = append(got, s.Transaction)
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("switches by transactions %v, want %v: %s", got, want, text)
		}
		return nil
	})
}

// events: each transaction of the agent is told once, also what it did before it heard of
// the API server, and so is what was cut off.
func (r *rebooted) events(done []transaction) {
	r.Helper()
	want := map[string]int{}
	for _, tx := range done {
		switch {
		case tx.Result == "cut-off":
			want[fmt.Sprintf("Recovered: interrupted transactions [%d] undone", tx.Transaction)]++
		case tx.Kind == "tune" || tx.Kind == "boot":
			want[fmt.Sprintf("Applied: transaction %d", tx.Transaction)]++
		}
	}
	r.c.Wait("the events", time.Minute, func(ctx context.Context) error {
		events, err := r.c.Client.CoreV1().Events(operatorNamespace).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.kind=Profile"})
		if err != nil {
			return err
		}
		got := map[string]int{}
		for _, e := range events.Items {
			switch head, _, _ := strings.Cut(e.Message, ":"); e.Reason {
			case "Applied":
				got["Applied: "+head]++
			case "Recovered":
				got["Recovered: "+e.Message]++
			}
		}
		if !maps.Equal(got, want) {
			return fmt.Errorf("%v, want %v", got, want)
		}
		return nil
	})
}
