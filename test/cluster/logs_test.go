package cluster

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"

	"fettle.dev/fettle/internal/testkit/accesslog"
)

const logsLabel = "fettle.dev/logs"

// logsRig is a cluster with a node, and a claim to a directory of this machine.
type logsRig struct {
	*generatorRig
	volume string
}

func newLogsRig(t *testing.T) *logsRig {
	r := &logsRig{newPodRig(t, "cluster-logs.md", "logs-role.yaml"), filepath.Join(SharedDir, "volume")}
	r.must(os.MkdirAll(r.volume, 0o755))
	size := core.ResourceList{core.ResourceStorage: resource.MustParse("10Gi")}
	modes, class := []core.PersistentVolumeAccessMode{core.ReadOnlyMany}, ""
	_, err := r.Client.CoreV1().PersistentVolumes().Create(t.Context(), &core.PersistentVolume{ObjectMeta: meta.ObjectMeta{Name: "web-logs"}, Spec: core.PersistentVolumeSpec{
		Capacity: size, AccessModes: modes, PersistentVolumeSource: core.PersistentVolumeSource{HostPath: &core.HostPathVolumeSource{Path: r.volume}},
	}}, meta.CreateOptions{})
	r.must(err)
	claims := r.Client.CoreV1().PersistentVolumeClaims(generatorSpace)
	_, err = claims.Create(t.Context(), &core.PersistentVolumeClaim{ObjectMeta: meta.ObjectMeta{Name: "web-logs"}, Spec: core.PersistentVolumeClaimSpec{
		AccessModes: modes, StorageClassName: &class, VolumeName: "web-logs", Resources: core.VolumeResourceRequirements{Requests: size},
	}}, meta.CreateOptions{})
	r.must(err)
	r.Wait("the claim to be bound", time.Minute, func(ctx context.Context) error {
		claim, err := claims.Get(ctx, "web-logs", meta.GetOptions{})
		if err == nil && claim.Status.Phase != core.ClaimBound {
			err = fmt.Errorf("it is %s", claim.Status.Phase)
		}
		return err
	})
	return r
}

// write writes a generated log onto the volume.
func (r *logsRig) write(t *testing.T, name string, lines int) {
	t.Helper()
	format, err := accesslog.Find("haproxy")
	r.must(err)
	f, err := os.Create(filepath.Join(r.volume, name))
	r.must(err)
	r.must(format.Write(f, lines, accesslog.Seed))
	r.must(f.Close())
}

// one is the answer of one process.
func (r *logsRig) one(t *testing.T, args ...string) []byte {
	t.Helper()
	began := time.Now()
	cmd := exec.Command("fettle", append([]string{"logs"}, args...)...)
	cmd.Dir = r.volume
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &said)
	}
	t.Logf("one process: %.1f s", time.Since(began).Seconds())
	return out.Bytes()
}

// pods returns a call that reads by eight pods.
func (r *logsRig) pods(args ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer) {
	cmd := exec.Command("kubectl-fettle", append([]string{"logs", "--kubeconfig", r.kubeconfig, "--namespace", generatorSpace, "--image", generatorImage, "--claim", "web-logs", "--pods", "8", "--cpu", "10m"}, args...)...)
	var out, said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = r.dir, &out, &said
	return cmd, &out, &said
}

// same compares the answer of eight pods with that of one process.
func (r *logsRig) same(t *testing.T, out, said *bytes.Buffer, err error, want []byte) {
	t.Helper()
	if err != nil || !bytes.Equal(out.Bytes(), want) || len(want) < 10_000 {
		t.Fatalf("%v: %d bytes, want %d\n%s", err, out.Len(), len(want), said)
	}
	r.Wait("nothing to be left", time.Minute, func(ctx context.Context) error { return r.leftOf(ctx, logsLabel) })
}

func logsSetup(t *testing.T, nightly bool) Setup {
	return Setup{Node: true, Nightly: nightly, Programs: []string{"./cmd/fettle", "./kube/cmd/kubectl-fettle"}, Files: []string{"docs/cluster-logs.md"}, Shared: t.TempDir()}
}

// lockedBuffer is a buffer that is read while a program writes.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// everything asks for all groups.
var everything = []string{"--output", "csv", "--top", "0", "--by", "method,path", "--by", "requestor", "--by", "status"}

// TestLogs tests that eight pods of a real node give the answer of one process, byte for byte, with
// the rights of the manual, and that nothing is left. A log that cannot be read is refused.
func TestLogs(t *testing.T) {
	if !Inside(t, logsSetup(t, false)) {
		return
	}
	r := newLogsRig(t)
	r.write(t, "access.log", 200_000)
	args := append([]string{"access.log"}, everything...)
	want := r.one(t, args...)
	cmd, out, said := r.pods(append(args, "--memory", "256Mi")...)
	r.same(t, out, said, cmd.Run(), want)
	r.must(os.WriteFile(filepath.Join(r.volume, "secret.log"), want, 0o600))
	for file, want := range map[string]string{"none.log": "none.log", "secret.log": "--user-id"} {
		cmd, out, said := r.pods(file, "--memory", "64Mi")
		if err := cmd.Run(); err == nil || out.Len() > 0 || !strings.Contains(said.String(), want) {
			t.Errorf("%s: %v\n%s%s", file, err, out, said)
		}
	}
}

// TestLogsMany tests twenty million lines: the answer of one process; a pod that is killed is
// replaced and its share counts once; a caller that is killed leaves nothing; a pod with too little
// memory is named.
func TestLogsMany(t *testing.T) {
	if !Inside(t, logsSetup(t, true)) {
		return
	}
	r := newLogsRig(t)
	r.write(t, "access.log", 20_000_000)
	args := append([]string{"access.log"}, everything...)
	want := r.one(t, args...)
	t.Run("same", func(t *testing.T) {
		began := time.Now()
		cmd, out, said := r.pods(args...)
		r.same(t, out, said, cmd.Run(), want)
		t.Logf("eight pods: %.1f s\n%s", time.Since(began).Seconds(), said)
	})
	// reading starts eight pods, and returns the pod of an index while it reads.
	reading := func(t *testing.T, index string, more ...string) (*exec.Cmd, *bytes.Buffer, *bytes.Buffer, *core.Pod) {
		t.Helper()
		cmd, out, said := r.pods(append(more, args...)...)
		var progress lockedBuffer
		cmd.Stderr = io.MultiWriter(said, &progress)
		r.must(cmd.Start())
		var pod core.Pod
		r.Wait("the pods to read", 2*time.Minute, func(ctx context.Context) error {
			if !strings.Contains(progress.text(), "reading: ") {
				return errors.New("no progress is shown")
			}
			list, err := r.Client.CoreV1().Pods(generatorSpace).List(ctx, meta.ListOptions{LabelSelector: logsLabel})
			if err != nil {
				return err
			}
			at := slices.IndexFunc(list.Items, func(p core.Pod) bool {
				return p.Annotations["batch.kubernetes.io/job-completion-index"] == index && p.Status.Phase == core.PodRunning
			})
			if at < 0 {
				return fmt.Errorf("%d pods", len(list.Items))
			}
			pod = list.Items[at]
			return nil
		})
		return cmd, out, said, &pod
	}
	for name, end := range map[string]func(*testing.T, *core.Pod){
		"killed": func(t *testing.T, p *core.Pod) {
			_, id, _ := strings.Cut(p.Status.ContainerStatuses[0].ContainerID, "://")
			run(t, "ctr", "--address", containerdSocket, "--namespace", "k8s.io", "tasks", "kill", "--signal", "SIGKILL", id)
		},
		"deleted": func(t *testing.T, p *core.Pod) {
			r.must(r.Client.CoreV1().Pods(generatorSpace).Delete(t.Context(), p.Name, meta.DeleteOptions{}))
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd, out, said, pod := reading(t, "3")
			end(t, pod)
			r.same(t, out, said, cmd.Wait(), want)
			if !strings.Contains(said.String(), "pod "+pod.Name) || !strings.Contains(said.String(), "(retry 1 of 3)") {
				t.Error(said)
			}
			t.Log(said)
		})
	}
	t.Run("caller killed", func(t *testing.T) {
		cmd, _, _, _ := reading(t, "3", "--start-within", "30s")
		r.must(cmd.Process.Kill())
		_ = cmd.Wait()
		killed := time.Now()
		r.Wait("nothing to be left", 10*time.Minute, func(ctx context.Context) error { return r.leftOf(ctx, logsLabel) })
		t.Logf("nothing is left after %.1f s", time.Since(killed).Seconds())
	})
	t.Run("out of memory", func(t *testing.T) {
		cmd, out, said := r.pods(append(args, "--memory", "16Mi")...)
		err := cmd.Run()
		if err == nil || out.Len() > 0 || !regexp.MustCompile(`share \d of 8 \(access.log bytes [0-9,]+ to [0-9,]+\) could not be read.*limit of 16Mi.*raise --memory`).MatchString(said.String()) {
			t.Errorf("%v\n%s%s", err, out, said)
		}
	})
}
