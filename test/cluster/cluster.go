package cluster

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	core "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	api "k8s.io/client-go/tools/clientcmd/api"
)

// Options of a cluster. The zero value is a control plane without a node.
type Options struct {
	// Node is the name of the real node, with a kubelet; "" for none. It needs
	// Setup.Node.
	Node string
	// Kwok is how many nodes kwok has; KwokNode may change each, by its number from 0,
	// before it is made (labels, capacity).
	Kwok     int
	KwokNode func(i int, n *core.Node)
	// Flags are added to the command line of a program, by its name ("kube-apiserver").
	Flags map[string][]string
}

// Cluster is a running Kubernetes. Its clients are of the group system:masters, to whom
// everything is allowed, and are held back by no rate limit of their own.
type Cluster struct {
	// Kubeconfig is a file that programs are given (--kubeconfig).
	Kubeconfig string
	Config     *rest.Config
	Client     kubernetes.Interface
	// Dir is a directory of the cluster's own. It is on a tmpfs.
	Dir string

	Etcd, APIServer, ControllerManager, Scheduler *Program
	// Kwok is nil in a cluster without its nodes.
	Kwok *Program
	// Containerd and Kubelet are nil in a cluster without a real node.
	Containerd *Program
	Kubelet    *Kubelet

	t         testing.TB
	flags     map[string][]string
	authority *authority
	programs  []*Program // in the order in which they were started
}

// Start starts a cluster and waits until everything in it is ready: the API answers, a
// pod can be made in the namespace default, and all nodes are Ready. The test runs
// inside a root (Inside); the cluster ends with it.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	group, inside := os.LookupEnv(cgroupEnv)
	switch {
	case !inside:
		t.Fatal("cluster: Start is called inside a root of the test's own: call Inside first")
	case o.Node != "" && group == "":
		t.Fatal("cluster: a real node needs Setup{Node: true}")
	}
	// Short, because unix socket addresses hold 108 bytes at most.
	dir, err := os.MkdirTemp("/run", "cluster")
	if err != nil {
		t.Fatal(err)
	}
	c := &Cluster{t: t, Dir: dir, flags: maps.Clone(o.Flags)}
	if o.Kwok >= usualKwok {
		c.patient()
	}
	t.Cleanup(c.stop)
	began := time.Now()
	c.must(c.identities())
	c.must(c.controlPlane())
	t.Logf("control plane ready after %.1f s", time.Since(began).Seconds())
	if o.Node != "" {
		c.must(c.node(o.Node))
		t.Logf("node %s ready after %.1f s", o.Node, time.Since(began).Seconds())
	}
	if o.Kwok > 0 {
		c.must(c.kwok(o.Kwok, o.KwokNode))
		t.Logf("%d nodes of kwok ready after %.1f s", o.Kwok, time.Since(began).Seconds())
	}
	return c
}

// must ends the test with an error.
func (c *Cluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// stop ends the programs, at once: nothing of the cluster is kept. What runs in pods ends
// with the root.
func (c *Cluster) stop() {
	if c.t.Failed() {
		for _, p := range c.programs {
			c.t.Logf("the end of the log of %s:\n%s", p.Name, p.Log(25))
		}
	}
	for _, p := range slices.Backward(c.programs) {
		p.Kill()
	}
}

// identities makes the authority, and the client of the test.
func (c *Cluster) identities() error {
	var err error
	if c.authority, err = newAuthority(filepath.Join(c.Dir, "pki")); err != nil {
		return err
	}
	if c.Kubeconfig, err = c.KubeconfigOf("test", "system:masters"); err != nil {
		return err
	}
	if c.Config, err = clientcmd.BuildConfigFromFlags("", c.Kubeconfig); err != nil {
		return err
	}
	c.Config.QPS = -1
	c.Client, err = kubernetes.NewForConfig(c.Config)
	return err
}

// KubeconfigOf writes a kubeconfig for a user in groups, such as "system:node:node1" in
// "system:nodes", who proves it by a certificate, and returns its name.
func (c *Cluster) KubeconfigOf(user string, groups ...string) (string, error) {
	file := "user-" + filepath.Base(user)
	p, err := c.authority.client(file, user, groups...)
	if err != nil {
		return "", err
	}
	config := api.NewConfig()
	config.Clusters["test"] = &api.Cluster{Server: server, CertificateAuthority: c.authority.certFile}
	config.AuthInfos[user] = &api.AuthInfo{ClientCertificate: p.certFile, ClientKey: p.keyFile}
	config.Contexts["test"] = &api.Context{Cluster: "test", AuthInfo: user}
	config.CurrentContext = "test"
	// What is read from files is written into the kubeconfig: it may be carried elsewhere.
	if err := api.FlattenConfig(config); err != nil {
		return "", err
	}
	name := filepath.Join(c.Dir, file+".kubeconfig")
	return name, clientcmd.WriteToFile(*config, name)
}

// Wait asks until there is no error, and ends the test with the last one when the time
// is over. what is the end of the sentence "waited ... for".
func (c *Cluster) Wait(what string, within time.Duration, ask func(context.Context) error) {
	c.t.Helper()
	c.must(wait(what, within, ask))
}

func wait(what string, within time.Duration, ask func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	var last error
	for {
		err := ask(ctx)
		switch {
		case err == nil:
			return nil
		case ctx.Err() == nil || last == nil:
			last = err // what ctx itself ends has no reason of its own
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waited %s for %s: %w", within, what, last)
		case <-time.After(100 * time.Millisecond):
		}
	}
}
