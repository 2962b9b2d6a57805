package agent

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/kube/tuned"
)

// eventServer accepts events, or answers with an error status.
type eventServer struct {
	code int
	made []string // REASON: MESSAGE, as far as the first colon of that
}

func (s *eventServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodPost && s.code != 0 {
		w.WriteHeader(s.code)
		reason := map[int]string{403: "Forbidden", 500: "InternalError"}[s.code]
		fmt.Fprintf(w, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`, reason, s.code)
		return
	}
	if r.Method == http.MethodPost {
		var e corev1.Event
		if err := json.NewDecoder(r.Body).Decode(&e); err == nil {
			what, _, _ := strings.Cut(e.Message, ":")
			s.made = append(s.made, e.Reason+": "+what)
		}
	}
	fmt.Fprint(w, `{}`)
}

// TestOwed tests that changes before the API server has sent the node's Profile, as after each
// boot, or while it accepts no events, are reported later, once.
func TestOwed(t *testing.T) {
	f := newNode(t, nil)
	server := &eventServer{}
	web := httptest.NewServer(server)
	defer web.Close()
	var a *running
	start := func() {
		t.Helper()
		c, err := newClient(&rest.Config{Host: web.URL}, "node1", "ns")
		if err != nil {
			t.Fatal(err)
		}
		a = &running{Options: Options{Node: f.Node, Log: slog.New(slog.DiscardHandler)}, client: c, tally: newTally()}
	}
	look := func(heard bool, p *tuned.Profile, fine bool) {
		t.Helper()
		if got := a.look(t.Context(), heard, p); got != fine {
			t.Errorf("fine: %v, want %v", got, fine)
		}
	}
	told := func(want ...string) {
		t.Helper()
		if !slices.Equal(server.made, want) {
			t.Errorf("events: %q, want %q", server.made, want)
		}
		server.made = nil
	}
	day, night := f.profile("", "day", day), f.profile("", "night", night)
	start()
	look(false, nil, true)
	look(true, day, true)
	told("Applied: transaction 1")

	// The power goes in the middle of a switch.
	f.At = func(point string) {
		if strings.HasPrefix(point, "write:") && strings.HasSuffix(point, ":after") {
			panic(killed{})
		}
	}
	if !dies(func() { f.Look(t.Context(), true, night) }) {
		t.Fatal("it was not killed")
	}
	f.boot("boot-2")
	start()
	look(false, nil, true)
	f.want(swappiness, "10")
	told()
	server.code = 500
	look(true, day, false)
	told()
	server.code = 0
	look(true, day, true)
	told("Recovered: interrupted transactions [2] undone", "Applied: transaction 4")
	look(true, day, true)
	told()

	// What is refused is not tried for ever.
	f.boot("boot-3")
	start()
	look(false, nil, true)
	server.code = 403
	look(true, day, true)
	server.code = 0
	look(true, day, true)
	told()

	// Nothing is reported for an object that is gone.
	f.boot("boot-4")
	start()
	look(false, nil, true)
	look(true, nil, true)
	f.wantPristine()
	look(true, day, true)
	told("Applied: transaction 8")

	// There is a bound to it.
	for i := range 3 * maxQueued {
		a.enqueue([]Event{event(false, "Applied", "transaction %d", i)}, time.Now())
	}
	if len(a.queue) != maxQueued || a.queue[maxQueued-1].Text != fmt.Sprint("transaction ", 3*maxQueued-1) {
		t.Errorf("%d are kept, the last is %+v", len(a.queue), a.queue[len(a.queue)-1])
	}
}

// TestForeignProfile tests a Profile of the Node Tuning Operator: the agent applies nothing and
// writes no status, annotation or event. After fettle's operator has taken it over, the agent does
// both.
func TestForeignProfile(t *testing.T) {
	f := newNode(t, nil)
	writes := 0
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			writes++
		}
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, `{}`)
	}))
	defer web.Close()
	c, err := newClient(&rest.Config{Host: web.URL}, "node1", "ns")
	if err != nil {
		t.Fatal(err)
	}
	a := &running{Options: Options{Node: f.Node, Log: slog.New(slog.DiscardHandler)}, client: c, tally: newTally()}
	p := f.profile("", "day", day)
	yes := true
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "tuned.openshift.io/v1", Kind: "Tuned", Name: "default", Controller: &yes}}
	for range 2 {
		if !a.look(t.Context(), true, p) || writes != 0 || a.last.Decision.Action != Leave || !strings.Contains(a.last.fault(), "Tuned default") {
			t.Fatalf("%d writes; %+v", writes, a.last.Decision)
		}
	}
	f.wantPristine()
	// A profile that was fettle's before stays as it is, and its node keeps the values.
	own := f.profile("", "day", day)
	if !a.look(t.Context(), true, own) || writes == 0 {
		t.Fatalf("%d writes; %+v", writes, a.last)
	}
	f.want(swappiness, "10")
	writes = 0
	p.Generation, p.Spec.Profile[0].Data = 9, night
	if !a.look(t.Context(), true, p) || writes != 0 {
		t.Errorf("%d writes", writes)
	}
	f.want(swappiness, "10")
	p.Labels = map[string]string{tuned.ManagedByLabel: tuned.ManagedBy}
	if !a.look(t.Context(), true, p) || writes == 0 {
		t.Errorf("--adopt: %d writes; %+v", writes, a.last)
	}
	f.want(swappiness, "30")
}
