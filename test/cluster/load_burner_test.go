package cluster

import (
	"bytes"
	"fmt"
	"os/exec"
	"strings"
	"time"

	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// burnerEnv names a program of this machine: kube-burner, next to which the load is
// measured. It has to be linked statically, as the root has libraries of its own.
const burnerEnv = "KUBE_BURNER"

// besideBurner makes as many config maps with kube-burner as with this program, flat out
// and one after the other, and says what either takes. Where there is no kube-burner, that
// is said.
func (m *many) besideBurner(count int) {
	m.t.Helper()
	program, err := exec.LookPath("kube-burner")
	if err != nil {
		m.t.Logf("not beside kube-burner: %s does not name one", burnerEnv)
		return
	}
	_, own := m.make("beside", count)
	m.run(0, "undo")
	theirs := m.burner(program, count)
	m.t.Logf("kube-burner: %d objects in %.1f s; %.3f ms of CPU for each, %.1f times as much; %.0f MiB at most, %.1f times as much",
		count, theirs.took.Seconds(), 1e3*theirs.cpu, theirs.cpu/own.cpu, theirs.peakMiB, theirs.peakMiB/own.peakMiB)
	if theirs.cpu < own.cpu {
		m.t.Errorf("kube-burner takes less CPU: %.3f ms, and %.3f ms here", 1e3*theirs.cpu, 1e3*own.cpu)
	}
	if theirs.peakMiB < own.peakMiB {
		m.t.Errorf("kube-burner takes less memory: %.0f MiB, and %.0f MiB here", theirs.peakMiB, own.peakMiB)
	}
}

// burnerSpace is the namespace of kube-burner's objects.
const burnerSpace = "burner"

// burner runs kube-burner with a create job of so many config maps, and nothing else that
// it would do: no limit that holds anything up, no wait, no look at what is there. The
// fields and flags are those of its documentation (reference/configuration, cli).
func (m *many) burner(program string, count int) cost {
	m.t.Helper()
	m.write("burner-map.yaml", `apiVersion: v1
kind: ConfigMap
metadata:
  name: map-{{.Iteration}}-{{.Replica}}
data:
  text: `+strings.Repeat("x", 1000)+"\n")
	config := m.write("burner.yaml", fmt.Sprintf(`jobs:
- name: beside
  jobType: create
  jobIterations: 1
  namespace: %s
  namespacedIterations: false
  qps: 100000
  burst: 100000
  cleanup: false
  podWait: false
  preLoadImages: false
  verifyObjects: false
  waitWhenFinished: false
  objects:
  - objectTemplate: burner-map.yaml
    replicas: %d
`, burnerSpace, count))
	cmd := exec.Command(program, "init", "--config="+config, "--kubeconfig="+m.c.Kubeconfig, "--timeout=10m", "--skip-log-file")
	var said bytes.Buffer
	cmd.Dir, cmd.Stdout, cmd.Stderr = m.dir, &said, &said
	c, err := m.measured(cmd, count)
	if err != nil {
		m.t.Fatalf("kube-burner: %v\n%s", err, &said)
	}
	// It ends with 0 also where some could not be made.
	list, err := m.c.Client.CoreV1().ConfigMaps(burnerSpace).List(m.t.Context(), meta.ListOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	made := 0
	for i := range list.Items {
		if strings.HasPrefix(list.Items[i].Name, "map-") {
			made++
		}
	}
	if made != count {
		m.t.Fatalf("kube-burner has made %d of %d objects, so that what it took is not to be compared\n%s", made, count, &said)
	}
	return c
}

// measured runs a command that makes so many objects, and says what it took.
func (m *many) measured(cmd *exec.Cmd, count int) (cost, error) {
	started, err := m.starter.Put(cmd)
	if err != nil {
		return cost{}, err
	}
	defer started.Close()
	began := time.Now()
	if err := cmd.Run(); err != nil {
		return cost{}, err
	}
	took := time.Since(began)
	most, err := started.Peak()
	return cost{took, (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds() / float64(count), float64(most) / (1 << 20)}, err
}
