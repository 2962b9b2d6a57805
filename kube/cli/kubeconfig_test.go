package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"fettle.dev/fettle/internal/ui"
)

// TestOptionsOfKubectl tests that each verb uses the requested server, its CA, the user and the
// impersonated user. check and load have their own connections in addition to client-go's, which
// status uses.
func TestOptionsOfKubectl(t *testing.T) {
	var mu sync.Mutex
	var asked []http.Header
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		asked = append(asked, r.Header)
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusForbidden)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","message":"you may not","code":403}`))
	}))
	defer server.Close()
	dir := t.TempDir()
	authority := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(authority, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	// The file's server is away, its user has another token.
	file := filepath.Join(dir, "config")
	text := `{current-context: here, clusters: [{name: c, cluster: {server: "https://127.0.0.1:1"}}, {name: other, cluster: {server: "` + server.URL + `"}}],
contexts: [{name: here, context: {cluster: c, user: u}}], users: [{name: u, user: {token: of-the-file}}, {name: v, user: {token: of-v}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "check", "load plan", "pod verify x"} {
		for _, c := range []struct{ options, user, as, groups string }{
			{"--server=" + server.URL + " --insecure-skip-tls-verify --token=mine", "Bearer mine", "", ""},
			{"-s " + server.URL + " --certificate-authority=" + authority + " --as=jane --as-group=dev --as-group=ops", "", "jane", "dev ops"},
			{"--kubeconfig=" + file + " --cluster=other --insecure-skip-tls-verify --as=jane", "Bearer of-the-file", "jane", ""},
			{"--kubeconfig=" + file + " --server=" + server.URL + " --insecure-skip-tls-verify --user=v", "Bearer of-v", "", ""},
		} {
			asked = nil
			code, out, said := run(t, append(strings.Fields(verb), strings.Fields(c.options)...)...)
			if len(asked) == 0 {
				t.Errorf("%s %s: nothing was asked; exit code %d, printed %q, said %q", verb, c.options, code, out, said)
			}
			for _, h := range asked {
				if h.Get("Authorization") != c.user || h.Get("Impersonate-User") != c.as || strings.Join(h["Impersonate-Group"], " ") != c.groups {
					t.Errorf("%s %s: asked with %v", verb, c.options, h)
				}
			}
		}
	}
	for words, want := range map[string]string{
		"status --as-group dev":                                                       "--as-group and --as-uid need --as USER",
		"status --request-timeout soon":                                               "--request-timeout soon: want a time such as 30s or 2m, or 0 for no limit",
		"status --request-timeout=-1s":                                                "--request-timeout -1s: want a time",
		"status --certificate-authority " + dir + "/none":                             "--certificate-authority: " + dir + "/none: no such file",
		"status --certificate-authority " + authority + " --insecure-skip-tls-verify": "exclude each other",
		"status --kubeconfig " + file + " --cluster d":                                `kubeconfig ` + file + `: cluster "d" not found; the kubeconfig's clusters: c, other`,
		"status --kubeconfig " + file + " --user w":                                   `kubeconfig ` + file + `: user "w" not found; the kubeconfig's users: u, v`,
		"status --username u":                                                         "unknown flag: --username",
	} {
		if code, _, said := run(t, strings.Fields(words)...); code != ui.Usage || !strings.Contains(said, want) {
			t.Errorf("%s: exit code %d, said %q, want %q", words, code, said, want)
		}
	}
	if code, _, said := run(t, "status", "--server=https://127.0.0.1:1"); code != ui.Failed || !strings.Contains(said, "the API server https://127.0.0.1:1 (of --server) cannot be reached") || strings.Contains(said, "in the kubeconfig") {
		t.Errorf("exit code %d, said %q", code, said)
	}
}

// TestRequestTimeout tests that the wait for a silent server ends at --request-timeout.
func TestRequestTimeout(t *testing.T) {
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-over:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(over)
	for verb, asked := range map[string]string{
		"status": "/api", "check": "/api/v1/namespaces/kube-system/pods", "check --etcd-endpoints=http://127.0.0.1:1": "/version", "health": "/api", "pod verify x": "/api/v1/namespaces/default/pods/x", "load plan": "",
	} {
		code, _, said := run(t, append(strings.Fields(verb), "--server="+server.URL, "--request-timeout=300ms")...)
		want := "no answer from the API server " + server.URL + " (of --server) within 300ms (--request-timeout): " + asked
		if code != ui.Failed || !strings.Contains(said, want) || !strings.Contains(said, "raise --request-timeout; test with kubectl get --raw /readyz --request-timeout=10s") {
			t.Errorf("%s: exit code %d, said %q, want %q", verb, code, said, want)
		}
	}
}

// TestRequestTimeoutLater tests that one request without an answer makes its part of an audit
// unknown, and that a server that has stopped answering ends the audit. On a busy machine other
// requests may take as long; then the time limit is longer.
func TestRequestTimeoutLater(t *testing.T) {
	for _, c := range []struct {
		silent bool // is the whole server from then on
		want   string
	}{
		{false, "no answer in time from the API server to GET /api/v1/pods"},
		{true, " within %s (--request-timeout): /api/v1/pods"},
	} {
		for timeout := 500 * time.Millisecond; ; timeout *= 2 {
			want := strings.ReplaceAll(c.want, "%s", timeout.String())
			code, hung, text := auditOfSilent(t, c.silent, timeout)
			if strings.Contains(text, want) && c.silent == (code == ui.Failed) && (!c.silent || hung == 2) {
				break
			}
			if timeout > 10*time.Second {
				t.Errorf("%+v: exit code %d and %d requests without an answer: %.3000s", c, code, hung, text)
				break
			}
		}
	}
}

// auditOfSilent audits a cluster whose server does not answer a request for the pods, or any
// request from then on, and returns the number of unanswered requests.
func auditOfSilent(t *testing.T, silent bool, timeout time.Duration) (code, hung int, text string) {
	answers := checked()
	var mu sync.Mutex
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		if r.URL.RequestURI() == "/api/v1/pods?limit=500" || hung > 0 && silent {
			hung++
			mu.Unlock()
			select {
			case <-over:
			case <-r.Context().Done():
			}
			return
		}
		mu.Unlock()
		text, there := answers[r.URL.RequestURI()].(json.RawMessage)
		if !there {
			w.WriteHeader(http.StatusNotFound)
			text = json.RawMessage(`{"kind":"Status","reason":"NotFound","code":404}`)
		}
		_, _ = w.Write(text)
	}))
	code, out, said := run(t, "check", "--output=json", "--server="+server.URL, "--request-timeout="+timeout.String())
	close(over)
	server.Close()
	return code, hung, out + said
}

// TestInterrupted tests that an interrupted verb that changes nothing says so once, and prints
// nothing more.
func TestInterrupted(t *testing.T) {
	pod, objects := manifest(t, nextPod), filepath.Join(t.TempDir(), "kubelet.yaml")
	if err := os.WriteFile(objects, []byte("apiVersion: machineconfiguration.openshift.io/v1\nkind: KubeletConfig\nmetadata: {name: a}\nspec: {kubeletConfig: {maxPods: 100}}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"status", "check", "check --etcd-endpoints=http://127.0.0.1:1", "health", "kubelet plan " + objects, "pod verify x", "pod explain --root " + vm(t) + " " + pod} {
		ctx, interrupt := context.WithCancel(t.Context())
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			interrupt()
			<-r.Context().Done()
		}))
		var out, said bytes.Buffer
		code := runUntil(ctx, "1", append(strings.Fields(verb), "--server="+server.URL), &out, &said)
		server.Close()
		if want := "kubectl fettle: interrupted; nothing changed\n"; code != ui.Interrupted || said.String() != want || out.String() != "" {
			t.Errorf("%s: exit code %d, printed %q, said %q, want %q", verb, code, out.String(), said.String(), want)
		}
		interrupt()
	}
}

// TestKubeconfigUnreadable tests that errors in a file name the file, the position and the fault.
func TestKubeconfigUnreadable(t *testing.T) {
	file := filepath.Join(t.TempDir(), "config")
	const head = "apiVersion: v1\nkind: Config\n"
	for text, want := range map[string]string{
		"just words\n":                   `:1: want fields, found "just words"`,
		"- a\n- b\n":                     ":1: want fields, found a list",
		"a: b\n c: d\n":                  ":2: mapping values are not allowed in this context",
		head + "clusters: 5\n":           ":3: clusters: want a list, found 5 (int)",
		"kind: [x]\n":                    ":1: kind: want text, found a list",
		"apiVersion: v7\nkind: Config\n": ": want apiVersion v1 and kind Config",
		head + "clusters:\n- name: a\n- name: b\n  cluster:\n    server: x\n    insecure-skip-tls-verify: maybe\n": `:8: clusters[1].cluster.insecure-skip-tls-verify: want true or false, found "maybe"`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		for _, args := range [][]string{{"status"}, {"check"}, {"pod", "verify", "x"}} {
			code, _, said := run(t, append(args, "--kubeconfig", file)...)
			if code != ui.Usage || !strings.Contains(said, file+want) || strings.Contains(said, "json") || strings.Contains(said, "unmarshal") || !strings.Contains(said, "name another file with --kubeconfig") {
				t.Errorf("%q: %v: exit code %d, said %q, want %q", text, args, code, said, want)
			}
		}
	}
}

// TestOptionsInPod tests that the options also apply in a pod, where clientcmd ignores most of them
// in favor of the pod's own account.
func TestOptionsInPod(t *testing.T) {
	pod := func() *rest.Config {
		return &rest.Config{Host: "https://10.0.0.1", BearerToken: "of-the-pod", BearerTokenFile: "/var/run/token", TLSClientConfig: rest.TLSClientConfig{CAFile: "/var/run/ca.crt"}}
	}
	o := kubeOptions{over: clientcmd.ConfigOverrides{
		AuthInfo: clientcmdapi.AuthInfo{Impersonate: "jane", ImpersonateGroups: []string{"dev"}}, Timeout: "5",
		ClusterInfo: clientcmdapi.Cluster{InsecureSkipTLSVerify: true, TLSServerName: "api.test"},
	}}
	c := pod()
	if err := o.complete(c); err != nil || c.Impersonate.UserName != "jane" || !slices.Equal(c.Impersonate.Groups, []string{"dev"}) || c.Timeout != 5*time.Second ||
		!c.Insecure || c.CAFile != "" || c.ServerName != "api.test" || c.BearerToken != "of-the-pod" {
		t.Errorf("%v %+v", err, c)
	}
	c = pod()
	o = kubeOptions{over: clientcmd.ConfigOverrides{AuthInfo: clientcmdapi.AuthInfo{ClientCertificate: "c.pem", ClientKey: "k.pem"}}}
	if err := o.complete(c); err != nil || c.CertFile != "c.pem" || c.KeyFile != "k.pem" || c.BearerToken != "" || c.BearerTokenFile != "" {
		t.Errorf("%v %+v", err, c)
	}
	c = pod()
	if err := (&kubeOptions{}).complete(c); err != nil || c.BearerToken != "of-the-pod" || c.CAFile != "/var/run/ca.crt" || c.Insecure {
		t.Errorf("%v %+v", err, c)
	}
}
