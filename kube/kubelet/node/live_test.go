package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"

	"fettle.dev/fettle/internal/host"
	"fettle.dev/fettle/internal/testkit/machine"
)

// liveSystemd simulates systemctl and journalctl, and records the calls.
type liveSystemd struct {
	asked   []string
	answers map[string]host.Result // by the beginning of the command
}

func (s *liveSystemd) Run(_ context.Context, c host.Command) (host.Result, error) {
	s.asked = append(s.asked, c.String())
	for begin, r := range s.answers {
		if strings.HasPrefix(c.String(), begin) {
			return r, nil
		}
	}
	return host.Result{}, nil
}

func (*liveSystemd) LookPath(name string) (string, error) { return "/usr/bin/" + name, nil }

func TestUnit(t *testing.T) {
	s := &liveSystemd{answers: map[string]host.Result{"journalctl": {Stdout: []byte("first\nlast\n")}}}
	h := machine.Mounted(t, map[string]string{"etc/hostname": "n\n"})
	h.Exec = s
	u := &Unit{Host: h, Name: "kubelet.service"}
	if err := u.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := u.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	all := strings.Join(s.asked, "\n")
	stop, start := strings.Index(all, "systemctl stop -- kubelet.service"), strings.LastIndex(all, "systemctl start -- kubelet.service")
	guarded := strings.Index(all, "systemd-run --quiet --collect --unit=fettle-kubelet-guard --on-active=60 --timer-property=AccuracySec=1s systemctl start -- kubelet.service")
	if guarded < 0 || stop < guarded || start < stop || !strings.Contains(all[stop:start], "reset-failed") || !strings.HasSuffix(all, "systemctl stop -- fettle-kubelet-guard.timer") {
		t.Errorf("systemd was asked:\n%s", all)
	}
	if got := u.LastWords(t.Context()); got != "first\nlast" {
		t.Errorf("last words: %q", got)
	}
	for text, ended := range map[string]bool{
		"ActiveState=active\nNRestarts=0\n": false, "ActiveState=activating\nNRestarts=0\n": false,
		"ActiveState=activating\nNRestarts=1\n": true, "ActiveState=active\nNRestarts=2\n": true,
		"ActiveState=failed\nNRestarts=0\n": true, "ActiveState=inactive\nNRestarts=0\n": true,
	} {
		s.answers = map[string]host.Result{"systemctl show": {Stdout: []byte("LoadState=loaded\n" + text)}}
		if err := u.Ended(t.Context()); errors.Is(err, ErrEnded) != ended || !ended && err != nil {
			t.Errorf("%q: %v", text, err)
		}
	}
	u.uptime = func() (time.Duration, error) { return 1000 * time.Second, nil }
	for text, want := range map[string]string{
		"ActiveState=active\nNRestarts=0\nExecMainStartTimestampMonotonic=999000000\n":     "",
		"ActiveState=active\nNRestarts=3\nExecMainStartTimestampMonotonic=900000000\n":     "",
		"ActiveState=active\nNRestarts=1\nExecMainStartTimestampMonotonic=980000000\n":     "restarted kubelet.service 20s ago",
		"ActiveState=activating\nNRestarts=3\nExecMainStartTimestampMonotonic=900000000\n": "kubelet.service is activating",
		"ActiveState=failed\nNRestarts=0\n":                                                "kubelet.service is failed",
	} {
		s.answers = map[string]host.Result{"systemctl show": {Stdout: []byte("LoadState=loaded\n" + text)}}
		if err := u.Steady(t.Context()); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("before a change, %q: %v", text, err)
		}
	}
	for text, want := range map[string]string{"LoadState=loaded\n": "", "LoadState=masked\n": "no unit kubelet.service (masked)", "LoadState=not-found\n": ") for the kubelet; name the kubelet's unit"} {
		s.answers = map[string]host.Result{"systemctl show": {Stdout: []byte(text)}}
		if err := u.Check(t.Context()); (err != nil) != (want != "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	s.answers = map[string]host.Result{"systemctl show": {ExitCode: 1, Stderr: []byte("no bus\n")}}
	if err := u.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot reach systemd") {
		t.Errorf("without systemd: %v", err)
	}
	s.answers, s.asked = map[string]host.Result{"systemd-run": {ExitCode: 1, Stderr: []byte("no bus\n")}}, nil
	if err := u.Stop(t.Context()); err == nil || !strings.Contains(err.Error(), "kubelet not stopped, because nothing would start it again if this process were killed:") || strings.Contains(strings.Join(s.asked, "\n"), "stop -- kubelet") {
		t.Errorf("without a guard: %v; %v", err, s.asked)
	}
	s.answers = map[string]host.Result{"systemctl s": {ExitCode: 5, Stderr: []byte("Unit kubelet.service not loaded.\n")}}
	for what, do := range map[string]func(context.Context) error{"stop": u.Stop, "start": u.Start} {
		if err := do(t.Context()); err == nil || !strings.Contains(err.Error(), "not loaded") {
			t.Errorf("%s of a unit that there is not: %v", what, err)
		}
	}
}

// runs is a running service.
type runs struct{ Service }

func (runs) Ended(context.Context) error { return nil }

// hasEnded is a service that was restarted long ago.
type hasEnded struct{ Service }

func (hasEnded) Ended(context.Context) error  { return ErrEnded }
func (hasEnded) Steady(context.Context) error { return nil }

func TestKubelet(t *testing.T) {
	api := http.NewServeMux()
	say := func(path, text string) {
		api.HandleFunc("GET "+path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, text)
		})
	}
	say("/api/v1/nodes/n/proxy/healthz", "ok")
	say("/api/v1/nodes/n/proxy/configz", `{"kubeletconfig":{"maxPods":110,"cpuManagerPolicy":"none"}}`)
	say("/api/v1/nodes/n", `{"kind":"Node","apiVersion":"v1","metadata":{"name":"n"},"status":{"conditions":[{"type":"Ready","status":"False","lastHeartbeatTime":"2026-01-02T03:04:05Z","message":"no network"}]}}`)
	say("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n", `{"kind":"Lease","apiVersion":"coordination.k8s.io/v1","spec":{"renewTime":"2026-01-02T03:04:06.789000Z"}}`)
	server := httptest.NewServer(api)
	defer server.Close()
	client, err := kubernetes.NewForConfig(&rest.Config{Host: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	k := &RunningKubelet{Service: runs{}, Client: client, Node: "n"}
	before := *k
	before.Service = hasEnded{}
	if well, healthy := before.Well(t.Context()), before.Healthy(t.Context()); well != nil || !errors.Is(healthy, ErrEnded) {
		t.Errorf("before a change: %v; after it: %v", well, healthy)
	}
	if err := k.Healthy(t.Context()); err != nil {
		t.Error(err)
	}
	if f, err := k.Configz(t.Context()); err != nil || f["maxPods"] != int64(110) {
		t.Errorf("%v %v", f, err)
	}
	want := Heartbeat{Lease: time.Date(2026, 1, 2, 3, 4, 6, 789e6, time.UTC), Status: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Why: "no network"}
	if h, err := k.Heartbeat(t.Context()); err != nil || !h.Lease.Equal(want.Lease) || !h.Status.Equal(want.Status) || h.Ready || h.Why != want.Why {
		t.Errorf("%+v %v", h, err)
	}
	if f, err := (&RunningKubelet{Client: client, Node: "m"}).Configz(t.Context()); err == nil {
		t.Errorf("of a node that there is not: %v", f)
	}
}

// TestDirect tests that the kubelet is queried at an address of this machine, with the token,
// without any proxy and with any certificate, and that its refusals are reported.
func TestDirect(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://192.0.2.1:1")
	var asked []string
	answer := http.NewServeMux()
	answer.HandleFunc("GET /healthz", func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.Header.Get("Authorization"))
		fmt.Fprint(w, "ok")
	})
	answer.HandleFunc("GET /configz", func(w http.ResponseWriter, _ *http.Request) {
		http.Error(w, "Forbidden (verb=get, resource=nodes, subresource(s)=[configz proxy])", http.StatusForbidden)
	})
	server := httptest.NewTLSServer(answer)
	defer server.Close()
	own, port, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	node := core.Node{ObjectMeta: meta.ObjectMeta{Name: "n"}}
	fmt.Sscan(port, &node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	node.Status.Addresses = []core.NodeAddress{
		{Type: core.NodeHostName, Address: own}, {Type: core.NodeInternalIP, Address: "192.0.2.7"}, {Type: core.NodeInternalIP, Address: own},
	}
	d, err := NewDirect(&rest.Config{Host: "https://api.example.com", BearerToken: "secret", TLSClientConfig: rest.TLSClientConfig{CAData: []byte("none")}})
	if err != nil {
		t.Fatal(err)
	}
	d.addresses = func() ([]net.Addr, error) { return []net.Addr{&net.IPNet{IP: net.ParseIP(own)}}, nil }
	k := &RunningKubelet{Service: runs{}, Client: fake.NewClientset(&node), Node: "n", Direct: d}
	if err := k.Healthy(t.Context()); err != nil || !slices.Equal(asked, []string{"Bearer secret"}) {
		t.Errorf("%v, asked by %v", err, asked)
	}
	if _, err := k.Configz(t.Context()); err == nil || !strings.Contains(err.Error(), "/configz of the kubelet: the kubelet denies access (Forbidden") || !strings.Contains(err.Error(), "before Kubernetes 1.33") {
		t.Errorf("one that refuses: %v", err)
	}
	// The token goes to no other server.
	d.addresses = func() ([]net.Addr, error) { return []net.Addr{&net.IPNet{IP: net.ParseIP("198.51.100.1")}}, nil }
	if at, err := d.at(&node); err != nil || at != "127.0.0.1:"+port {
		t.Errorf("at %s %v", at, err)
	}
	if at, err := d.at(&core.Node{}); err != nil || at != "127.0.0.1:10250" {
		t.Errorf("at %s %v", at, err)
	}
}
