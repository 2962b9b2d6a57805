package cluster

import (
	"context"
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
)

// TestAgentPod: the agents of kube/deploy/, as a real kubelet runs them, set this kernel's
// values: those of the machine, of the network and of IPC. They stay while the agent is
// killed and its pod replaced, and are back when the Profile object is gone.
func TestAgentPod(t *testing.T) {
	if !Inside(t, Setup{Node: true, Nightly: true, Programs: []string{"./kube/cmd/kubectl-fettle"}}) {
		return
	}
	ctx := t.Context()
	c := Start(t, Options{Node: "node1"})
	c.Image(agentImage, filepath.Join(programDir, "kubectl-fettle"))
	before := map[string]string{}
	for _, key := range []string{"vm.swappiness", "net.core.somaxconn", "kernel.shmmni", "vm.overcommit_memory"} {
		before[key] = sysctl(t, key)
		t.Cleanup(func() {
			if now := sysctl(t, key); now != before[key] {
				t.Errorf("%s is left at %s, it was %s", key, now, before[key])
				_ = os.WriteFile("/proc/sys/"+strings.ReplaceAll(key, ".", "/"), []byte(before[key]), 0)
			}
		})
	}
	want := map[string]string{}
	for key, value := range before {
		want[key] = value
	}
	var text strings.Builder
	text.WriteString("[sysctl]\n")
	for _, key := range []string{"vm.swappiness", "net.core.somaxconn", "kernel.shmmni"} {
		n, err := strconv.Atoi(before[key])
		if err != nil {
			t.Fatal(err)
		}
		want[key] = fmt.Sprint(n + 1)
		fmt.Fprintf(&text, "%s=%s\n", key, want[key])
	}
	text.WriteString("vm.overcommit_memory=2\n") // the kubelet's: told, and not written
	// A limit that only an open descriptor holds, if no other process holds one.
	holds := latency() == noLatency
	if holds {
		text.WriteString("[cpu]\nforce_latency=1234\n")
	}
	t.Logf("a latency is held: %v", holds)
	held := func(want uint32) {
		t.Helper()
		if holds {
			c.Wait("the latency that is held", time.Minute, func(context.Context) error {
				if now := latency(); now != want {
					return fmt.Errorf("%d, want %d", now, want)
				}
				return nil
			})
		}
	}
	has := func(values map[string]string) {
		t.Helper()
		c.Wait("the kernel's values", time.Minute, func(context.Context) error {
			for key, value := range values {
				if now := sysctl(t, key); now != value {
					return fmt.Errorf("%s is %s, want %s", key, now, value)
				}
			}
			return nil
		})
	}

	c.deployAgents(t)
	a := &agentProcess{T: t, c: c, profiles: dynamic.NewForConfigOrDie(c.Config).Resource(profileKind).Namespace(operatorNamespace), log: "/dev/null"}
	first := c.agentPod(t, "")
	a.put("", "site", text.String())
	if m := a.says("True/AsExpected", "True/TunedSysctlOverride"); !strings.Contains(m, "vm.overcommit_memory: want 2, has 1") {
		t.Errorf("it says: %s", m)
	}
	has(want)
	held(1234)

	pids := c.Kubelet.Processes(first.UID)
	if len(pids) != 1 {
		t.Fatalf("processes of the agent: %v", pids)
	}
	if err := syscall.Kill(pids[0], syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	has(want)
	c.Wait("the agent to be started again", 2*time.Minute, func(ctx context.Context) error {
		if now := c.Kubelet.Processes(first.UID); len(now) != 1 || now[0] == pids[0] {
			return fmt.Errorf("processes %v", now)
		}
		return nil
	})
	has(want)
	held(1234)

	if err := c.Client.CoreV1().Pods(operatorNamespace).Delete(ctx, first.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Kubelet.Away(first.UID, time.Minute)
	has(want)
	c.agentPod(t, first.Name)
	has(want)
	held(1234)
	a.delete()
	has(before)
	held(noLatency)
}

// noLatency is what the kernel answers without a requested limit, in microseconds.
const noLatency = 2000000000

// latency is the limit in force; 0 where the kernel has none.
func latency() uint32 {
	b, err := os.ReadFile("/dev/cpu_dma_latency")
	if err != nil || len(b) != 4 {
		return 0
	}
	return binary.NativeEndian.Uint32(b)
}

// agentPod waits until the agent's pod is Running, and is another one than that.
func (c *Cluster) agentPod(t *testing.T, other string) (pod core.Pod) {
	t.Helper()
	c.Wait("an agent's pod to be Running", 2*time.Minute, func(ctx context.Context) error {
		pods, err := c.Client.CoreV1().Pods(operatorNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range pods.Items {
			if p.Name != other && p.DeletionTimestamp == nil && p.Status.Phase == core.PodRunning {
				pod = p
				return nil
			}
		}
		var states []string
		for _, p := range pods.Items {
			states = append(states, fmt.Sprintf("%s: %s %v", p.Name, p.Status.Phase, p.Status.ContainerStatuses))
		}
		return fmt.Errorf("pods: %v", states)
	})
	return pod
}

func sysctl(t *testing.T, key string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(key, ".", "/"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}
