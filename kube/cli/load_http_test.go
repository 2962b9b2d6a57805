package cli

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/runpage"
	"fettle.dev/fettle/internal/requests/load"
	loadfleet "fettle.dev/fettle/internal/requests/load/fleet"
	"fettle.dev/fettle/internal/requests/load/scenario"
	"fettle.dev/fettle/internal/requests/logs/shares"
	"fettle.dev/fettle/internal/ui"
)

// podAPI is the stand-in with an Indexed Job's controller, its pods, and their attach streams.
// The pods are real generators, which run in this process.
type podAPI struct {
	*standIn
	t *testing.T
	// denied are the rights that the user lacks, "VERB RESOURCE"; refused are the requests that
	// fail, "METHOD RESOURCE".
	denied, refused []string
	// state, if not nil, changes the status of each new pod.
	state func(index int, status map[string]any)
	// lose, if not nil, is called for each message of a pod. If it reports true, the stream ends.
	lose func(pod, line string) bool

	heard  sync.Map // what each pod was sent, by its name
	served sync.WaitGroup
}

func newPodAPI(t *testing.T) *podAPI {
	p := &podAPI{standIn: newStandIn(t), t: t}
	p.Config.Handler = p
	t.Cleanup(p.served.Wait)
	return p
}

func (p *podAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	last := parts[len(parts)-1]
	switch {
	case last == "selfsubjectaccessreviews":
		p.review(w, r)
	case last == "attach":
		p.attach(w, r, parts[3], parts[5])
	case slices.Contains(p.refused, r.Method+" "+last):
		refuse(w, http.StatusForbidden, "Forbidden")
	case last == "pods" && r.Method == http.MethodGet:
		p.control()
		items := []any{}
		p.all("pods", func(o map[string]any) { items = append(items, o) })
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(map[string]any{"kind": "PodList", "apiVersion": "v1", "items": items})
	default:
		p.standIn.ServeHTTP(w, r)
		p.control()
	}
}

func (p *podAPI) review(w http.ResponseWriter, r *http.Request) {
	var ask struct {
		Spec struct {
			ResourceAttributes struct{ Verb, Resource, Subresource string }
		}
	}
	_ = json.NewDecoder(r.Body).Decode(&ask)
	a := ask.Spec.ResourceAttributes
	right := strings.TrimSuffix(a.Verb+" "+a.Resource+"/"+a.Subresource, "/")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"status": map[string]any{"allowed": !slices.Contains(p.denied, right)}})
}

// control creates the pods of a new Job, and removes what a deleted one owned.
func (p *podAPI) control() {
	p.mu.Lock()
	defer p.mu.Unlock()
	owners := map[string]bool{}
	for _, job := range p.objects["jobs"] {
		meta, spec := job["metadata"].(map[string]any), job["spec"].(map[string]any)
		owners[meta["uid"].(string)] = true
		container := spec["template"].(map[string]any)["spec"].(map[string]any)["containers"].([]any)[0]
		for i := range int(spec["completions"].(float64)) {
			for retry := range 1 + int(spec["backoffLimitPerIndex"].(float64)) {
				name := fmt.Sprintf("%s-%d-x%s", meta["name"], i, strings.Repeat("x", retry))
				if o := p.objects["pods"][meta["namespace"].(string)+"/"+name]; o != nil && o["status"].(map[string]any)["phase"] != "Failed" {
					break
				} else if o != nil || p.writes["POST pods "+name] > 0 {
					continue
				}
				p.writes["POST pods "+name]++
				status := map[string]any{"phase": "Running", "containerStatuses": []any{map[string]any{"state": map[string]any{"running": map[string]any{}}}}}
				if p.state != nil {
					p.state(i, status)
				}
				p.store("pods", map[string]any{"metadata": map[string]any{"name": name, "namespace": meta["namespace"], "annotations": map[string]any{"batch.kubernetes.io/job-completion-index": fmt.Sprint(i)}, "owner": meta["uid"]},
					"spec": map[string]any{"nodeName": fmt.Sprintf("node%d", i%2), "containers": []any{container}}, "status": status})
				break
			}
		}
	}
	for _, resource := range []string{"pods", "secrets"} {
		for key, o := range p.objects[resource] {
			owner, _ := o["metadata"].(map[string]any)["owner"].(string)
			if refs, is := o["metadata"].(map[string]any)["ownerReferences"].([]any); is {
				owner = refs[0].(map[string]any)["uid"].(string)
			}
			if owner != "" && !owners[owner] {
				delete(p.objects[resource], key)
			}
		}
	}
}

// Channels of a stream (remotecommand's protocol v5).
const channelStdin, channelStdout, channelError, channelClose = 0, 1, 3, 255

// attach runs the generator of a pod over a WebSocket.
func (p *podAPI) attach(w http.ResponseWriter, r *http.Request, namespace, pod string) {
	p.served.Add(1)
	defer p.served.Done()
	conn, err := (&websocket.Upgrader{Subprotocols: []string{"v5.channel.k8s.io"}}).Upgrade(w, r, nil)
	if err != nil {
		p.t.Error(err)
		return
	}
	defer conn.Close()
	in, stdin := io.Pipe()
	var writing sync.Mutex
	send := func(channel byte, text []byte) {
		writing.Lock()
		defer writing.Unlock()
		_ = conn.WriteMessage(websocket.BinaryMessage, append([]byte{channel}, text...))
	}
	go func() {
		defer stdin.Close()
		for {
			_, message, err := conn.ReadMessage()
			if err != nil || message[0] == channelClose {
				return
			}
			if message[0] == channelStdin {
				was, _ := p.heard.LoadOrStore(pod, "")
				p.heard.Store(pod, was.(string)+string(message[1:]))
				if _, err := stdin.Write(message[1:]); err != nil {
					return
				}
			}
		}
	}()
	ctx, end := context.WithCancel(r.Context())
	defer end()
	out := writerFunc(func(text []byte) (int, error) {
		if p.lose != nil && p.lose(namespace+"/"+pod, string(text)) {
			_ = conn.Close()
			return 0, io.ErrClosedPipe
		}
		send(channelStdout, text)
		return len(text), nil
	})
	if r.URL.Query().Get("container") == "reader" {
		_ = shares.Serve(ctx, in, out, time.Hour)
	} else {
		_ = loadfleet.Serve(ctx, in, out, workerOf(p.stored()), 0)
	}
	send(channelError, []byte(`{"status":"Success"}`))
}

// stored returns the job, which the Secrets hold.
func (p *podAPI) stored() (job []byte) {
	parts := map[string][]byte{}
	p.all("secrets", func(o map[string]any) {
		for name, text := range o["data"].(map[string]any) {
			parts[name], _ = base64.StdEncoding.DecodeString(text.(string))
		}
	})
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		job = append(job, parts[name]...)
	}
	return job
}

// workerOf returns the worker of a job, as fettle load worker chooses it.
func workerOf(job []byte) loadfleet.Worker {
	if bytes.Contains(job, []byte(`"text":`)) {
		return &scenario.Worker{Stored: job, Able: func(*scenario.Plan, int) error { return nil }}
	}
	return &load.Worker{Stored: job, Able: func(*load.Plan) error { return nil }}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(text []byte) (int, error) { return f(text) }

// left returns what exists of a load.
func (p *podAPI) left() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, resource := range []string{"jobs", "secrets", "pods"} {
		for key := range p.objects[resource] {
			all = append(all, resource+" "+key)
		}
	}
	return all
}

// load runs load http against the stand-in.
func (p *podAPI) load(args ...string) (code int, x *load.Result, out, said string) {
	p.t.Helper()
	code, out, said = run(p.t, append([]string{"load", "http", "--server", p.URL, "--namespace", "shop", "--image", "fettle:1", "--output", "json"}, args...)...)
	var r struct{ Body *load.Result }
	_ = json.Unmarshal([]byte(out), &r)
	return code, r.Body, out, said
}

// counting is a server that counts its requests.
func counting(t *testing.T) (host string, n *atomic.Int64) {
	n = &atomic.Int64{}
	s := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { n.Add(1) }))
	t.Cleanup(s.Close)
	return strings.TrimPrefix(s.URL, "http://"), n
}

// TestLoadHTTP tests that the counts of several generators add up to what the server counted,
// that the record is one of load http, and that nothing is left.
func TestLoadHTTP(t *testing.T) {
	p := newPodAPI(t)
	host, n := counting(t)
	state := t.TempDir()
	code, x, out, said := p.load("--state-dir", state, "--generators", "3", "--rate", "100/s", "--for", "2s", "--allow", host, "--header", "Authorization: Bearer geheim", "--expect", "errors < 1%", "http://"+host+"/")
	if code != ui.Done && !strings.Contains(said, "the load generator was the limit") || x == nil {
		t.Fatalf("exit code %d: %s%s", code, out, said)
	}
	if got := n.Load(); x.Whole.Starts != got || x.Whole.Statuses["200"] != got || got != 200 || len(x.Generator.Clients) != 3 {
		t.Errorf("the server counted %d of %d requests: %+v", got, x.Whole.Starts, x.Generator.Clients)
	}
	for i, c := range x.Generator.Clients {
		if !strings.HasSuffix(c.Name, fmt.Sprintf("-%d-x", i)) || c.Starts == 0 || c.ClockErrorS <= 0 {
			t.Errorf("%+v", c)
		}
	}
	if left := p.left(); left != nil || !strings.Contains(said, "3 generators on 2 nodes") {
		t.Errorf("left: %v; %s", left, said)
	}
	valid(t, "run", []byte(out))
	var doc struct{ ID string }
	if err := json.Unmarshal([]byte(out), &doc); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(state, "http", doc.ID+".json")
	runs, err := evidence.ReadFile(file)
	if err != nil || len(runs) != 1 || runs[0].Kind != load.Kind || runs[0].Machine.Name != p.URL || runs[0].Machine.Settings["generators"] != "3" || !strings.Contains(said, file) {
		t.Fatalf("%+v %v", runs, err)
	}
	// fettle runs show prints it as one of its own.
	if of, err := runpage.ResultOf(runs[0]); err != nil || of == nil || len(of.(*load.Result).Generator.Clients) != 3 {
		t.Errorf("%+v %v", of, err)
	}
	if strings.Contains(out+said, "geheim") {
		t.Error("a secret is printed")
	}
	p.heard.Range(func(pod, text any) bool {
		if strings.Contains(text.(string), "geheim") || !strings.Contains(text.(string), `"names"`) {
			t.Errorf("%s was sent %s", pod, text)
		}
		return true
	})
}

// TestLoadHTTPKnee tests that the generators search for the highest rate.
func TestLoadHTTPKnee(t *testing.T) {
	p := newPodAPI(t)
	host, n := counting(t)
	code, x, out, said := p.load("--generators", "2", "--find-knee", "--rate", "20/s..20/s", "--for", "1s", "--allow", host, "--expect", "errors < 50%", "http://"+host+"/")
	if code != ui.Done || x == nil || x.Knee == nil || x.Knee.Rate != 20 || len(x.Knee.Stages) != 2 || n.Load() < 40 || p.left() != nil {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
}

// TestLoadHTTPCertificates tests that the generators authenticate with the certificate, which
// they get by the Secret only.
func TestLoadHTTPCertificates(t *testing.T) {
	p := newPodAPI(t)
	var n atomic.Int64
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS.PeerCertificates[0].Subject.CommonName == "host1" {
			n.Add(1)
		}
	}))
	cert, key, pool := clientCertificate(t)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, MinVersion: tls.VersionTLS12}
	s.StartTLS()
	t.Cleanup(s.Close)
	ca := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	host := strings.TrimPrefix(s.URL, "https://")
	code, x, out, said := p.load("--generators", "2", "--rate", "50/s", "--for", "2s", "--allow", host, "--cert", cert, "--key", key, "--cacert", ca, s.URL+"/")
	if code != ui.Done || x == nil || x.Whole.Statuses["200"] != 100 || n.Load() != 100 || x.TLS == nil || x.TLS.Handshakes == 0 {
		t.Errorf("exit code %d, the server counted %d: %s%s", code, n.Load(), out, said)
	}
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	p.heard.Range(func(pod, text any) bool {
		if strings.Contains(text.(string), base64.StdEncoding.EncodeToString(secret)) {
			t.Errorf("%s was sent the key on its stream", pod)
		}
		return true
	})
	// Without the CA no generator connects, and nothing is sent.
	if code, _, _, said := p.load("--generators", "2", "--rate", "50/s", "--for", "2s", "--allow", host, "--cert", cert, "--key", key, s.URL+"/"); code != ui.Failed || !strings.Contains(said, "-0-x: ") || !strings.Contains(said, "-1-x: ") || n.Load() != 100 || p.left() != nil {
		t.Errorf("exit code %d: %s", code, said)
	}
}

func clientCertificate(t *testing.T) (cert, key string, pool *x509.CertPool) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "host1"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	own, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: der}, key: {Type: "PRIVATE KEY", Bytes: own}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return cert, key, pool
}

// TestLoadHTTPLost tests that a lost generator is named with the reason, that the others are
// stopped and counted, and that nothing is left.
func TestLoadHTTPLost(t *testing.T) {
	for name, c := range map[string]struct {
		pod  map[string]any // the pod's status then; nil: it is gone
		want string
	}{
		"deleted": {nil, "the pod was deleted on node node1"},
		"OOM": {map[string]any{"phase": "Failed", "containerStatuses": []any{map[string]any{"state": map[string]any{"terminated": map[string]any{"reason": "OOMKilled", "exitCode": 137}}}}},
			"the generator on node node1 used more memory than its limit of 256Mi and was killed (OOMKilled); raise --memory"},
		"evicted": {map[string]any{"phase": "Failed", "conditions": []any{map[string]any{"type": "DisruptionTarget", "status": "True", "reason": "DeletionByTaintManager", "message": "Taint manager: deleting due to NoExecute taint"}}},
			"the pod was removed on node node1: DeletionByTaintManager: Taint manager: deleting due to NoExecute taint"},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodAPI(t)
			host, n := counting(t)
			p.lose = func(pod, line string) bool {
				if !strings.HasSuffix(pod, "-1-x") || !strings.HasPrefix(line, `{"now"`) || n.Load() < 90 {
					return false
				}
				p.mu.Lock()
				defer p.mu.Unlock()
				if o := p.objects["pods"][pod]; c.pod == nil {
					delete(p.objects["pods"], pod)
				} else {
					o["status"] = c.pod
				}
				return true
			}
			code, x, out, said := p.load("--generators", "2", "--rate", "60/s", "--for", "1h", "--allow", host, "--expect", "p99 < 1h", "http://"+host+"/")
			if code != ui.Failed || x == nil || x.Word != load.Partial || x.Cut == nil || x.Whole.Starts == 0 || len(x.Gates) != 1 || !x.Gates[0].Unknown {
				t.Fatalf("exit code %d: %s%s", code, out, said)
			}
			g := x.Generator.Clients
			if g[0].Lost != "" || g[0].Starts != x.Whole.Starts || !strings.HasPrefix(g[1].Lost, c.want+" (last report at ") || !strings.Contains(said, g[1].Name+": "+c.want) {
				t.Errorf("%+v\n%s", g, said)
			}
			if p.left() != nil {
				t.Errorf("left: %v", p.left())
			}
		})
	}
}

// TestLoadHTTPNotStarted tests that nothing is left if the generators cannot start, and that the
// reason is said.
func TestLoadHTTPNotStarted(t *testing.T) {
	waiting := func(reason string) func(int, map[string]any) {
		return func(i int, status map[string]any) {
			if i == 1 {
				status["containerStatuses"] = []any{map[string]any{"state": map[string]any{"waiting": map[string]any{"reason": reason, "message": "no such image"}}}}
			}
		}
	}
	for name, c := range map[string]struct {
		setUp   func(*podAPI)
		want    string
		created bool
	}{
		"rights": {func(p *podAPI) { p.denied = []string{"create pods/attach", "delete jobs"} }, "nothing was created: rights are missing in namespace shop: delete jobs.batch, create pods/attach\n", false},
		"job":    {func(p *podAPI) { p.refused = []string{"POST jobs"} }, "cannot create Job fettle-load-", false},
		"secret": {func(p *podAPI) { p.refused = []string{"POST secrets"} }, "cannot create Secret fettle-load-", true},
		"image":  {func(p *podAPI) { p.state = waiting("ImagePullBackOff") }, "-1-x cannot start: ImagePullBackOff: no such image", true},
		"not scheduled": {func(p *podAPI) {
			p.state = func(i int, status map[string]any) {
				if i == 1 {
					delete(status, "containerStatuses")
					status["phase"], status["conditions"] = "Pending", []any{map[string]any{"type": "PodScheduled", "status": "False", "message": "0/3 nodes are available: 3 Insufficient cpu."}}
				}
			}
		}, "after 1s only 1 of 2 generators run; pod ", true},
		"wrong version": {func(p *podAPI) {
			p.state = func(_ int, status map[string]any) {
				status["phase"], status["containerStatuses"] = "Failed", []any{map[string]any{"state": map[string]any{"terminated": map[string]any{"exitCode": 2, "message": "fettle: unknown flag: --job\n"}}}}
			}
		}, "the generator on node node0 ended with exit code 2: fettle: unknown flag: --job", true},
	} {
		t.Run(name, func(t *testing.T) {
			p := newPodAPI(t)
			c.setUp(p)
			host, n := counting(t)
			code, _, out, said := p.load("--generators", "2", "--rate", "60/s", "--for", "2s", "--start-within", "1s", "--allow", host, "http://"+host+"/")
			if code != ui.Failed || !strings.Contains(said, c.want) || n.Load() != 0 || p.left() != nil {
				t.Errorf("exit code %d, %d requests, left: %v\n%s%s", code, n.Load(), p.left(), out, said)
			}
			if created := p.wrote("POST jobs") > 0; created != c.created {
				t.Errorf("a Job was created: %t", created)
			}
		})
	}
}

// TestLoadHTTPRefused tests loads that are refused before anything is created, and those that only
// the pods can tell.
func TestLoadHTTPRefused(t *testing.T) {
	p := newPodAPI(t)
	_, n := counting(t)
	big := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(big, make([]byte, 13<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	const web = "http://web.shop.svc:8080/"
	for _, c := range []struct {
		args    []string
		code    int
		want    string
		created bool
	}{
		{[]string{"http://localhost:8080/"}, ui.Refused, "localhost:8080 is a loopback address: each generator would load its own pod, not this machine", false},
		{[]string{"http://192.0.2.9:8080/", "--allow", "198.51.100.0/24"}, ui.Refused, "192.0.2.9:8080 is not allowed; load only your own servers", false},
		{[]string{web}, ui.Refused, "web.shop.svc:8080 is not allowed; load only your own servers", false},
		{[]string{web, "--allow", "web.shop.svc:8080", "--body", "@" + big}, ui.Usage, " but Secrets hold at most 16,777,216", false},
		{[]string{web, "--allow", "web.shop.svc:8080", "--max-connections", "2", "--generators", "3"}, ui.Usage, "2 connections: too few for 3 generators; each generator needs at least one", false},
		{[]string{web, "--allow", "web.shop.svc:8080", "--expect", "cpu < 80%"}, ui.Usage, "kubectl fettle observes no server", false},
		{[]string{web, "--allow", "web.shop.svc:8080", "--memory", "much"}, ui.Usage, "want a quantity of Kubernetes above 0", false},
		// Its address may be in the network, which only the pods can tell.
		{[]string{"http://no-such-host.invalid/", "--allow", "192.0.2.0/24"}, ui.Usage, "cannot resolve no-such-host.invalid", true},
	} {
		was := p.wrote("POST jobs")
		code, _, out, said := p.load(append([]string{"--rate", "60/s", "--for", "2s"}, c.args...)...)
		if code != c.code || !strings.Contains(said, c.want) || n.Load() != 0 || p.left() != nil || p.wrote("POST jobs") > was != c.created {
			t.Errorf("%q: exit code %d, %d Jobs, left: %v\n%s%s", c.args, code, p.wrote("POST jobs")-was, p.left(), out, said)
		}
	}
}

// TestDryRunAsJSON tests that a dry run prints one document of JSON, which kubectl can read.
func TestDryRunAsJSON(t *testing.T) {
	for call, want := range map[string]string{
		"load http --generators 2 --rate 9/s --allow web:80 http://web/": "List Job Secret",
		"logs access.log --claim web --pods 2":                           "Job",
	} {
		code, out, said := run(t, append(strings.Fields(call), "--dry-run", "--image", "fettle:1", "--output", "json")...)
		var o struct {
			Kind  string
			Items []struct{ Kind string }
		}
		if err := json.Unmarshal([]byte(out), &o); code != ui.Done || err != nil {
			t.Errorf("%s: exit code %d, %v: %s%s", call, code, err, out, said)
		}
		got := o.Kind
		for _, i := range o.Items {
			got += " " + i.Kind
		}
		if got != want {
			t.Errorf("%s: kinds %s, want %s", call, got, want)
		}
	}
}

// TestLoadHTTPDryRun tests that a dry run prints both objects without the keys, and asks no
// cluster.
func TestLoadHTTPDryRun(t *testing.T) {
	code, out, said := run(t, "load", "http", "--dry-run", "--image", "fettle:1", "--generators", "20", "--rate", "60/s", "--allow", "web:80", "--header", "Authorization: geheim", "http://web/")
	if code != ui.Done || strings.Contains(out+said, "geheim") {
		t.Errorf("exit code %d: %s%s", code, out, said)
	}
	for _, want := range []string{"kind: Job", "completions: 20", "parallelism: 20", "completionMode: Indexed", "activeDeadlineSeconds: 2", "ttlSecondsAfterFinished: 15", "kind: Secret", "uid: UID-OF-THE-JOB", "bytes, not shown", "topologyKey: kubernetes.io/hostname"} {
		if !strings.Contains(out, want) {
			t.Errorf("%q is not in\n%s", want, out)
		}
	}
}
