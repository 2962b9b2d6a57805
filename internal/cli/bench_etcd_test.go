package cli

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"fettle.dev/fettle/internal/evidence"
	"fettle.dev/fettle/internal/measure/etcd"
	testkitroot "fettle.dev/fettle/internal/testkit/root"
)

const etcdVariables = "/etc/default/etcd"

// etcdServer starts Debian's etcd with variables, which its unit would read from the
// same file, and returns what asks it with its own client.
func etcdServer(t *testing.T, variables ...string) (ctl func(args ...string) string, stop func()) {
	t.Helper()
	dir := t.TempDir()
	variables = append(variables, "ETCD_DATA_DIR="+filepath.Join(dir, "data"))
	before, err := os.ReadFile(etcdVariables)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(etcdVariables, []byte(strings.Join(variables, "\n")+"\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	server := exec.Command("/usr/bin/etcd")
	server.Env = append(os.Environ(), variables...)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	server.Stdout, server.Stderr = log, log
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = server.Process.Kill()
			_ = server.Wait()
			_ = os.WriteFile(etcdVariables, before, 0o644)
		}
	}
	t.Cleanup(stop)
	ctl = func(args ...string) string {
		cmd := exec.Command("/usr/bin/etcdctl", args...)
		cmd.Env = append(os.Environ(), "ETCDCTL_API=3")
		for _, v := range variables {
			name, value, _ := strings.Cut(v, "=")
			switch name {
			case "ETCD_LISTEN_CLIENT_URLS":
				cmd.Env = append(cmd.Env, "ETCDCTL_ENDPOINTS="+value)
			case "ETCD_TRUSTED_CA_FILE":
				cmd.Env = append(cmd.Env, "ETCDCTL_CACERT="+value)
			case "ETCD_CERT_FILE", "ETCD_KEY_FILE":
				cmd.Env = append(cmd.Env, "ETCDCTL_"+strings.TrimSuffix(strings.TrimPrefix(name, "ETCD_"), "_FILE")+"="+value)
			}
		}
		out, _ := cmd.CombinedOutput()
		return string(out)
	}
	if !testkitroot.Eventually(2*time.Minute, func() bool { return strings.Contains(ctl("endpoint", "health"), "is healthy") }) {
		text, _ := os.ReadFile(log.Name())
		t.Fatalf("etcd is not healthy: %s\n%s", ctl("endpoint", "health"), text)
	}
	return ctl, stop
}

// certificate makes an authority and a certificate of it for 127.0.0.1.
func certificate(t *testing.T) (ca, cert, key string) {
	t.Helper()
	dir := t.TempDir()
	file := func(name, kind string, der []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	root, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	authority := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, authority, authority, &root.PublicKey, root)
	must(err)
	ca = file("ca.pem", "CERTIFICATE", der)
	own, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	must(err)
	member := &x509.Certificate{SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "member"}, NotBefore: authority.NotBefore, NotAfter: authority.NotAfter,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	der, err = x509.CreateCertificate(rand.Reader, member, authority, &own.PublicKey, root)
	must(err)
	cert = file("member.pem", "CERTIFICATE", der)
	private, err := x509.MarshalECPrivateKey(own)
	must(err)
	return ca, cert, file("member-key.pem", "EC PRIVATE KEY", private)
}

// benchEtcd runs the verb.
func benchEtcd(t *testing.T, code int, args ...string) (out string, run *evidence.Run, result *etcd.Result) {
	t.Helper()
	cmd := fettleCommand(t, append([]string{"--state-dir", filepath.Join(t.TempDir(), "state"), "bench", "etcd"}, args...)...)
	var talk strings.Builder
	cmd.Stderr = &talk
	text, _ := cmd.Output()
	if cmd.ProcessState.ExitCode() != code {
		t.Errorf("%v: exit %d, want %d: %s%s", args, cmd.ProcessState.ExitCode(), code, text, talk.String())
	}
	if code == 0 && args[len(args)-1] == "json" {
		if err := validate(text); err != nil {
			t.Error(err)
		}
		run, result = &evidence.Run{}, &etcd.Result{}
		if err := json.Unmarshal(text, run); err != nil {
			t.Fatal(err)
		}
		bodyValid(t, run)
		if err := json.Unmarshal(run.Body, result); err != nil {
			t.Fatal(err)
		}
	}
	return string(text) + talk.String(), run, result
}

// TestBenchEtcd: a real member is read and judged, nothing is written without leave,
// and what is written beneath the prefix goes again, after Ctrl-C too.
func TestBenchEtcd(t *testing.T) {
	t.Parallel()
	if testkitroot.Inside(t, testkitroot.Options{Servers: true}) {
		benchRealEtcd(t)
	}
}

// TestBenchEtcd37: the same with a real server of 3.7, and one without a quota, which is
// written to and judged for that.
func TestBenchEtcd37(t *testing.T) {
	if !testkitroot.Inside(t, testkitroot.Etcd(t, "3.7")) {
		return
	}
	benchRealEtcd(t)
	etcdServer(t, "ETCD_QUOTA_BACKEND_BYTES=-1", "ETCD_EXPERIMENTAL_MEMORY_MLOCK=true")
	if _, _, r := benchEtcd(t, 0, "--write-prefix", "bench", "--writes", "50", "-o", "json"); r != nil && r.Writes.N != 50 {
		t.Errorf("%+v", r.Writes)
	}
	cmd := fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "check", "etcd", "--all", "--output", "json")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	var audit struct {
		Findings []struct {
			ID, State string
			Measured  any
		}
	}
	if err := json.Unmarshal(out, &audit); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range audit.Findings {
		got[f.ID] = f.State
		if f.ID == "E04" && f.Measured != "no quota" {
			t.Errorf("E04: %+v", f)
		}
	}
	for id, want := range map[string]string{"E04": "warn", "E06": "pass", "E10": "not-applicable", "E11": "pass", "E15": "pass", "E16": "warn"} {
		if got[id] != want {
			t.Errorf("%s is %s, want %s", id, got[id], want)
		}
	}
}

func benchRealEtcd(t *testing.T) {
	if out, _, _ := benchEtcd(t, 1); !strings.Contains(out, "etcd: ") {
		t.Errorf("without a server: %s", out)
	}
	t.Run("plain", func(t *testing.T) {
		ctl, stop := etcdServer(t, "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:2379", "ETCD_ADVERTISE_CLIENT_URLS=http://127.0.0.1:2379")
		ctl("put", "bench/mine", "stays")
		revision := func() string { return ctl("get", "bench/mine", "-w", "fields") }
		before := revision()
		out, _, _ := benchEtcd(t, 0, "--for", "1s")
		if !strings.Contains(out, "cannot tell: fsync since its start: p99 ") || !strings.Contains(out, "1,000 are needed") {
			t.Errorf("a young member: %s", out)
		}
		if after := revision(); after != before {
			t.Errorf("something was written: %s, before %s", after, before)
		}
		_, run, r := benchEtcd(t, 0, "--write-prefix", "bench", "--writes", "1200", "-o", "json")
		if r == nil {
			return
		}
		if r.Writes.N != 1200 || r.Writes.P99S == nil || r.Writes.P50S <= 0 || r.Judged[1].N < 1000 || r.Judged[1].When != "window" || r.Word == "" {
			t.Errorf("%+v", r)
		}
		series, err := evidence.SeriesOf(run)
		if err != nil || len(series) != 3 || series[2].Name != "etcd:put" || len(series[2].Samples) != 5 {
			t.Errorf("%+v %v", series, err)
		}
		t.Log(run.Verdict)
		keys := func() string { return ctl("get", "", "--prefix", "--keys-only") }
		if got := strings.Fields(keys()); len(got) != 1 || got[0] != "bench/mine" {
			t.Errorf("left behind: %q", got)
		}

		// As the work of an experiment.
		prove := fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "prove", "--change-cmd", "true", "--undo-cmd", "true", "--bench", "etcd:put=bench", "--budget", "1s", "--force")
		if out, err := prove.CombinedOutput(); err != nil || !strings.Contains(string(out), "fettle bench etcd put=bench") || !strings.Contains(string(out), "metric            put") || !strings.Contains(string(out), "ended by budget") {
			t.Errorf("%v: %s", err, out)
		}
		prove = fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "prove", "--change-cmd", "true", "--undo-cmd", "true", "--bench", "etcd:put=/registry", "--force")
		if out, err := prove.CombinedOutput(); err == nil || prove.ProcessState.ExitCode() != 4 || !strings.Contains(string(out), "belong to Kubernetes") {
			t.Errorf("%v: %s", err, out)
		}
		if got := strings.Fields(keys()); len(got) != 1 || got[0] != "bench/mine" {
			t.Errorf("left behind: %q", got)
		}

		cmd := fettleCommand(t, "--state-dir", filepath.Join(t.TempDir(), "state"), "bench", "etcd", "--write-prefix", "bench", "--writes", "90000")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		await(t, "keys to be written", func() bool { return strings.Contains(keys(), "bench/fettle-bench-") })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		_ = cmd.Wait()
		if code := cmd.ProcessState.ExitCode(); code != 130 {
			t.Errorf("exit %d after Ctrl-C", code)
		}
		if got := strings.Fields(keys()); len(got) != 1 || got[0] != "bench/mine" {
			t.Errorf("left behind after Ctrl-C: %q", got)
		}
		for args, want := range map[string]string{"--write-prefix /registry": "belong to Kubernetes", "--write-prefix /registry/x": "belong to Kubernetes"} {
			if out, _, _ := benchEtcd(t, 4, strings.Fields(args)...); !strings.Contains(out, want) {
				t.Errorf("%s: %s", args, out)
			}
		}
		for _, args := range []string{"--for 1ms", "--writes 5", "--write-prefix bench --writes 0", "--write-prefix a --for 5s", "--member other"} {
			benchEtcd(t, 2, strings.Fields(args)...)
		}
		stop()
		if out, _, _ := benchEtcd(t, 1); !strings.Contains(out, "etcd") {
			t.Errorf("after its end: %s", out)
		}
	})
	t.Run("certificates", func(t *testing.T) {
		ca, cert, key := certificate(t)
		ctl, _ := etcdServer(t, "ETCD_LISTEN_CLIENT_URLS=https://127.0.0.1:2379", "ETCD_ADVERTISE_CLIENT_URLS=https://127.0.0.1:2379",
			"ETCD_TRUSTED_CA_FILE="+ca, "ETCD_CERT_FILE="+cert, "ETCD_KEY_FILE="+key, "ETCD_CLIENT_CERT_AUTH=true")
		_, _, r := benchEtcd(t, 0, "--write-prefix", "bench", "--writes", "50", "-o", "json")
		if r != nil && (r.Writes.N != 50 || r.Writes.P99S != nil) {
			t.Errorf("%+v", r.Writes)
		}
		if got := strings.TrimSpace(ctl("get", "", "--prefix", "--keys-only")); got != "" {
			t.Errorf("left behind: %q", got)
		}
	})
	t.Run("no gateway", func(t *testing.T) {
		etcdServer(t, "ETCD_LISTEN_CLIENT_URLS=http://127.0.0.1:2379", "ETCD_ADVERTISE_CLIENT_URLS=http://127.0.0.1:2379", "ETCD_ENABLE_GRPC_GATEWAY=false")
		if out, _, _ := benchEtcd(t, 1, "--write-prefix", "bench"); !strings.Contains(out, "gateway") {
			t.Error(out)
		}
	})
}
