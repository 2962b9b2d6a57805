package cluster

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	kwokAddress = "127.0.0.1:10247"
	// kwokMark is the annotation of kwok's nodes, and the key of their taint.
	kwokMark = "kwok.x-k8s.io/node"
)

// KwokTolerates lets a pod be scheduled on kwok's nodes. There its status is set to Running, but it
// does not run.
var KwokTolerates = core.Toleration{Key: kwokMark, Operator: core.TolerationOpExists, Effect: core.TaintEffectNoSchedule}

// usualKwok is the number of nodes in most tests of kwok. With more nodes, kwok on a busy machine
// renews their leases too late.
const usualKwok = 500

// patient makes kwok renew the leases of its nodes seldom, without consequences for the nodes. With
// the usual intervals, 2,000 nodes make 200 writes a second, which would occupy two processors.
func (c *Cluster) patient() {
	if c.flags == nil {
		c.flags = map[string][]string{}
	}
	for program, flag := range map[string]string{"kwok": "--node-lease-duration-seconds=1200", "kube-controller-manager": "--node-monitor-grace-period=30m"} {
		c.flags[program] = append(slices.Clone(c.flags[program]), flag)
	}
}

// kwok starts kwok and creates its nodes: "kwok-0000" and so on.
func (c *Cluster) kwok(count int, change func(int, *core.Node)) error {
	get, err := c.getter()
	if err != nil {
		return err
	}
	c.Kwok = c.program(func() error { return get("http://" + kwokAddress + "/healthz") }, "kwok", "--kubeconfig="+c.Kubeconfig,
		"--manage-nodes-with-annotation-selector="+kwokMark+"=fake", "--server-address="+kwokAddress, "--v=WARN")
	if err := c.Kwok.Start(); err != nil {
		return err
	}
	if err := c.makeKwokNodes(count, change); err != nil {
		return err
	}
	return wait(fmt.Sprintf("%d nodes of kwok to be Ready", count), time.Minute+time.Duration(count)*200*time.Millisecond, func(ctx context.Context) error {
		if count > usualKwok {
			time.Sleep(time.Duration(count) * time.Millisecond) // a list of so many is much to ask for
		}
		nodes, err := c.Client.CoreV1().Nodes().List(ctx, meta.ListOptions{ResourceVersion: "0", LabelSelector: "type=kwok"})
		if err != nil {
			return err
		}
		if len(nodes.Items) != count {
			return fmt.Errorf("there are %d", len(nodes.Items))
		}
		for i := range nodes.Items {
			if err := ready(&nodes.Items[i]); err != nil {
				return err
			}
		}
		return nil
	})
}

// makeKwokNodes creates the nodes, several at a time.
func (c *Cluster) makeKwokNodes(count int, change func(int, *core.Node)) error {
	const atOnce = 8
	numbers, failed := make(chan int), make(chan error, atOnce)
	var all sync.WaitGroup
	for range atOnce {
		all.Go(func() {
			for i := range numbers {
				n := kwokNode(i)
				if change != nil {
					change(i, n)
				}
				if _, err := c.Client.CoreV1().Nodes().Create(context.Background(), n, meta.CreateOptions{}); err != nil {
					failed <- err
					return
				}
			}
		})
	}
	var err error
	for i := 0; i < count && err == nil; i++ {
		select {
		case numbers <- i:
		case err = <-failed:
		}
	}
	close(numbers)
	all.Wait()
	select {
	case err = <-failed:
	default:
	}
	return err
}

// kwokNode returns a node of 32 processors with room for 110 pods.
func kwokNode(i int) *core.Node {
	name := fmt.Sprintf("kwok-%04d", i)
	has := core.ResourceList{
		core.ResourceCPU: resource.MustParse("32"), core.ResourceMemory: resource.MustParse("256Gi"), core.ResourcePods: resource.MustParse("110"),
	}
	return &core.Node{
		ObjectMeta: meta.ObjectMeta{
			Name:        name,
			Annotations: map[string]string{kwokMark: "fake"},
			Labels: map[string]string{
				core.LabelHostname: name, core.LabelOSStable: "linux", core.LabelArchStable: "amd64", "type": "kwok",
			},
		},
		Spec:   core.NodeSpec{Taints: []core.Taint{{Key: kwokMark, Value: "fake", Effect: core.TaintEffectNoSchedule}}},
		Status: core.NodeStatus{Capacity: has, Allocatable: has},
	}
}
