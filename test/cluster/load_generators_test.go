package cluster

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	batch "k8s.io/api/batch/v1"
	core "k8s.io/api/core/v1"
	rbac "k8s.io/api/rbac/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

const (
	generatorImage = "fettle.test/fettle:1"
	generatorLabel = "fettle.dev/load-generators"
	generatorSpace = "shop"
)

// generatorRig is a cluster with a node that has the image of fettle, a user who has the rights
// that the manual names, and a server that counts its requests.
type generatorRig struct {
	*Cluster
	kubeconfig, state, dir string
	plain, secured         string // addresses of the server
	served, known          atomic.Int64
}

func newGeneratorRig(t *testing.T) *generatorRig {
	r := newPodRig(t, "cluster-load-generators.md", "load-generators-role.yaml")
	r.serve(t)
	return r
}

// newPodRig is a generatorRig without the server. A page of the manual has the role of the user.
func newPodRig(t *testing.T, page, name string) *generatorRig {
	c := Start(t, Options{Node: "node1"})
	r := &generatorRig{Cluster: c, state: filepath.Join(t.TempDir(), "runs"), dir: t.TempDir()}
	c.Image(generatorImage, filepath.Join(programDir, "fettle"))
	_, err := c.Client.CoreV1().Namespaces().Create(t.Context(), &core.Namespace{ObjectMeta: meta.ObjectMeta{Name: generatorSpace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"}}}, meta.CreateOptions{})
	c.must(err)
	manual, err := os.ReadFile(filepath.Join(FilesDir, page))
	c.must(err)
	_, rest, _ := strings.Cut(string(manual), "```yaml\n# "+name+"\n")
	text, _, found := strings.Cut(rest, "```")
	if !found {
		t.Fatal("the manual has no role")
	}
	var role rbac.Role
	c.must(yaml.UnmarshalStrict([]byte(text), &role))
	_, err = c.Client.RbacV1().Roles(generatorSpace).Create(t.Context(), &role, meta.CreateOptions{})
	c.must(err)
	_, err = c.Client.RbacV1().RoleBindings(generatorSpace).Create(t.Context(), &rbac.RoleBinding{ObjectMeta: meta.ObjectMeta{Name: role.Name}, RoleRef: rbac.RoleRef{APIGroup: rbac.GroupName, Kind: "Role", Name: role.Name}, Subjects: []rbac.Subject{{Kind: rbac.UserKind, Name: "alice"}}}, meta.CreateOptions{})
	c.must(err)
	r.kubeconfig, err = c.KubeconfigOf("alice", "developers")
	c.must(err)
	c.Wait("the namespace's service account", time.Minute, func(ctx context.Context) error {
		_, err := c.Client.CoreV1().ServiceAccounts(generatorSpace).Get(ctx, "default", meta.GetOptions{})
		return err
	})
	return r
}

// serve starts the server, with and without TLS. With it, it takes only hosts with a
// certificate of the test's authority.
func (r *generatorRig) serve(t *testing.T) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	r.must(err)
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "host1"}, NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IPAddresses: []net.IP{net.ParseIP(nodeAddress)}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	r.must(err)
	own, err := x509.MarshalPKCS8PrivateKey(private)
	r.must(err)
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	r.must(os.WriteFile(filepath.Join(r.dir, "cert.pem"), cert, 0o600))
	r.must(os.WriteFile(filepath.Join(r.dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: own}), 0o600))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(cert)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", nodeAddress+":0")
		r.must(err)
		return l
	}
	plain, secured := listen(), listen()
	r.plain, r.secured = plain.Addr().String(), secured.Addr().String()
	server := &http.Server{ErrorLog: log.New(io.Discard, "", 0), Handler: http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		r.served.Add(1)
		if q.TLS != nil && len(q.TLS.PeerCertificates) == 1 && q.TLS.PeerCertificates[0].Subject.CommonName == "host1" {
			r.known.Add(1)
		}
		_, _ = io.WriteString(w, "here\n")
	})}
	go func() { _ = server.Serve(plain) }()
	go func() {
		_ = server.Serve(tls.NewListener(secured, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool, Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}}}))
	}()
	t.Cleanup(func() { _ = server.Close() })
}

// httpLoad is what of a record these tests ask for.
type httpLoad struct {
	Schema, ID, Kind string
	ExitCode         int `json:"exit_code"`
	Body             struct {
		Result string
		Whole  struct {
			Starts, Errors int64
			Statuses       map[string]int64
			Latency        struct{ N int64 }
		}
		Generator struct {
			Clients []struct {
				Name, Lost string
				Starts     int64
				ClockError float64 `json:"clock_error_s"`
				EndedEarly bool    `json:"ended_early"`
			}
		}
	}
}

func (r *generatorRig) command(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	return r.verb([]string{"load", "http"}, args...)
}

// verb returns a call of a verb that runs generators.
func (r *generatorRig) verb(verb []string, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.Command("kubectl-fettle", append(append(slices.Clone(verb), "--kubeconfig", r.kubeconfig, "--namespace", generatorSpace, "--state-dir", r.state, "--image", generatorImage, "--memory", "64Mi", "--cpu", "10m", "--output", "json"), args...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, &out, &said
	return cmd, &out, &said
}

// load runs a load to its end, with one of some exit codes.
func (r *generatorRig) load(t *testing.T, codes string, args ...string) (x httpLoad, said string) {
	t.Helper()
	cmd, out, errs := r.command(args...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	if code := fmt.Sprint(cmd.ProcessState.ExitCode()); !strings.Contains(codes, code) {
		t.Fatalf("exit code %s, want %s\n%s%s", code, codes, out, errs)
	}
	if err := json.Unmarshal(out.Bytes(), &x); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errs)
	}
	t.Log(errs.String())
	return x, errs.String()
}

// left returns what the API server has of loads.
func (r *generatorRig) left(ctx context.Context) error { return r.leftOf(ctx, generatorLabel) }

// leftOf returns what the API server has of Jobs with a label.
func (r *generatorRig) leftOf(ctx context.Context, label string) error {
	all := meta.ListOptions{LabelSelector: label}
	jobs, err := r.Client.BatchV1().Jobs("").List(ctx, all)
	if err != nil {
		return err
	}
	secrets, err := r.Client.CoreV1().Secrets("").List(ctx, all)
	if err != nil {
		return err
	}
	pods, err := r.Client.CoreV1().Pods("").List(ctx, all)
	if err != nil {
		return err
	}
	if n, s, p := len(jobs.Items), len(secrets.Items), len(pods.Items); n+s+p > 0 {
		return fmt.Errorf("there are %d Jobs, %d Secrets and %d pods", n, s, p)
	}
	return nil
}

func generatorSetup(nightly bool) Setup {
	return Setup{Node: true, Nightly: nightly, Programs: []string{"./cmd/fettle", "./kube/cmd/kubectl-fettle"}, Files: []string{"docs/cluster-load-generators.md"}}
}

// TestLoadGenerators: eight generators in pods of a real node send what one would, the server
// counts as many requests as they do, and nothing is left. The user has the rights of the manual.
func TestLoadGenerators(t *testing.T) {
	if !Inside(t, generatorSetup(false)) {
		return
	}
	r := newGeneratorRig(t)
	whole := func(t *testing.T, x httpLoad, n int64) {
		t.Helper()
		all := int64(0)
		for _, c := range x.Body.Generator.Clients {
			all += c.Starts
			if c.Starts == 0 || c.Lost != "" || c.ClockError <= 0 || c.ClockError > 1 {
				t.Errorf("%+v", c)
			}
		}
		w := x.Body.Whole
		if x.Kind != "load-http" || x.ID == "" || len(x.Body.Generator.Clients) != 8 || w.Starts != n || all != n || w.Statuses["200"] != n || w.Latency.N != n || w.Errors != 0 {
			t.Errorf("the server counted %d: %+v", n, x)
		}
	}
	t.Run("counts", func(t *testing.T) {
		x, said := r.load(t, "01", "--generators", "8", "--rate", "400/s", "--for", "5s", "--allow", r.plain, "http://"+r.plain+"/")
		whole(t, x, r.served.Load())
		if x.Body.Whole.Starts != 2000 || !strings.Contains(said, "8 generators on 1 node") {
			t.Errorf("%d requests\n%s", x.Body.Whole.Starts, said)
		}
	})
	t.Run("certificates", func(t *testing.T) {
		before := r.served.Load()
		x, _ := r.load(t, "01", "--generators", "8", "--rate", "200/s", "--for", "3s", "--allow", r.secured, "--cert", "cert.pem", "--key", "key.pem", "--cacert", "cert.pem", "https://"+r.secured+"/")
		whole(t, x, r.served.Load()-before)
		if r.known.Load() != x.Body.Whole.Starts || x.Body.Whole.Starts != 600 {
			t.Errorf("the server knew the host %d times of %d", r.known.Load(), x.Body.Whole.Starts)
		}
	})
	r.Wait("nothing to be left", time.Minute, r.left)
}

// TestLoadGeneratorsEnd: a deleted pod is named, and the rest is counted; what a killed caller has
// begun ends and is removed by Kubernetes alone, whether its generators were running or not.
func TestLoadGeneratorsEnd(t *testing.T) {
	if !Inside(t, generatorSetup(true)) {
		return
	}
	r := newGeneratorRig(t)
	start := func(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
		t.Helper()
		before := r.served.Load()
		cmd, out, said := r.command(append([]string{"--rate", "200/s", "--for", "1h", "--allow", r.plain, "http://" + r.plain + "/"}, args...)...)
		r.must(cmd.Start())
		r.Wait("the load", 3*time.Minute, func(context.Context) error {
			if n := r.served.Load() - before; n < 500 {
				return fmt.Errorf("%d requests\n%s", n, said)
			}
			return nil
		})
		return cmd, out, said
	}
	pods := r.Client.CoreV1().Pods(generatorSpace)
	// ends ends a generator, of eight, while all run. It returns the result, and which one it is.
	ends := func(t *testing.T, end func(pod string)) (x httpLoad, at int, said string) {
		t.Helper()
		cmd, out, errs := start(t, "--generators", "8")
		list, err := pods.List(t.Context(), meta.ListOptions{LabelSelector: generatorLabel})
		r.must(err)
		gone := list.Items[3].Name
		end(gone)
		_ = cmd.Wait()
		if err := json.Unmarshal(out.Bytes(), &x); err != nil || cmd.ProcessState.ExitCode() != 1 {
			t.Fatalf("exit code %d, %v\n%s%s", cmd.ProcessState.ExitCode(), err, out, errs)
		}
		all := int64(0)
		for i, c := range x.Body.Generator.Clients {
			if c.Name == gone {
				at = i
			}
			all += c.Starts
		}
		if w := x.Body.Whole; all != w.Starts || all == 0 || w.Errors != 0 || !strings.Contains(errs.String(), "client "+gone) {
			t.Errorf("%+v\n%s", w, errs)
		}
		r.Wait("nothing to be left", time.Minute, r.left)
		return x, at, errs.String()
	}
	t.Run("pod deleted", func(t *testing.T) {
		// A generator that is asked to end still reports what it counted.
		x, at, said := ends(t, func(pod string) { r.must(pods.Delete(t.Context(), pod, meta.DeleteOptions{})) })
		for i, c := range x.Body.Generator.Clients {
			if c.EndedEarly != (i == at) || c.Lost != "" || c.Starts == 0 {
				t.Errorf("%d was deleted: %+v", at, c)
			}
		}
		if !strings.Contains(said, " was stopped on its machine; the figures of all clients end then") {
			t.Error(said)
		}
	})
	t.Run("generator killed", func(t *testing.T) {
		x, at, _ := ends(t, func(pod string) {
			p, err := pods.Get(t.Context(), pod, meta.GetOptions{})
			r.must(err)
			_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
			run(t, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
		})
		if x.Body.Result != "client-lost" {
			t.Errorf("the result is %s", x.Body.Result)
		}
		for i, c := range x.Body.Generator.Clients {
			if (c.Lost != "") != (i == at) || i == at && !strings.HasPrefix(c.Lost, "the generator on node node1 ended with exit code 137: Error (last report at ") {
				t.Errorf("%d was killed: %+v", at, c)
			}
		}
	})
	t.Run("killed", func(t *testing.T) {
		cmd, _, _ := start(t, "--generators", "8")
		r.must(cmd.Process.Kill())
		_ = cmd.Wait()
		killed := time.Now()
		r.Wait("the load to end", 30*time.Second, func(ctx context.Context) error {
			before := r.served.Load()
			select {
			case <-ctx.Done():
			case <-time.After(2 * time.Second):
			}
			if n := r.served.Load() - before; n > 0 {
				return fmt.Errorf("%d requests in two seconds", n)
			}
			return nil
		})
		t.Logf("the load ended within %.1f s", time.Since(killed).Seconds())
		r.Wait("nothing to be left", 3*time.Minute, r.left)
		t.Logf("nothing is left after %.1f s", time.Since(killed).Seconds())
	})
	t.Run("killed before it has attached", func(t *testing.T) {
		cmd, out, said := r.command("--rate", "200/s", "--for", "1s", "--generators", "2", "--start-within", "1s", "--dry-run", "--allow", r.plain, "http://"+r.plain+"/")
		r.must(cmd.Run())
		documents := strings.Split(out.String(), "---\n")
		if len(documents) != 3 {
			t.Fatalf("%d documents: %s%s", len(documents)-1, out, said)
		}
		var job batch.Job
		var secret core.Secret
		r.must(yaml.UnmarshalStrict([]byte(documents[1]), &job))
		r.must(yaml.UnmarshalStrict([]byte(documents[2]), &secret))
		deadline := int64(20)
		job.Spec.ActiveDeadlineSeconds = &deadline
		made, err := r.Client.BatchV1().Jobs(generatorSpace).Create(t.Context(), &job, meta.CreateOptions{})
		r.must(err)
		secret.OwnerReferences[0].UID = made.UID
		_, err = r.Client.CoreV1().Secrets(generatorSpace).Create(t.Context(), &secret, meta.CreateOptions{})
		r.must(err)
		r.Wait("its pods to run", time.Minute, func(ctx context.Context) error {
			list, err := pods.List(ctx, meta.ListOptions{LabelSelector: generatorLabel})
			running := 0
			for _, p := range list.Items {
				if p.Status.Phase == core.PodRunning {
					running++
				}
			}
			if err == nil && running != 2 {
				err = fmt.Errorf("%d of %d run", running, len(list.Items))
			}
			return err
		})
		r.Wait("nothing to be left", 3*time.Minute, r.left)
	})
}
