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
	// Node is the name of the real node, which has a kubelet; "" means no real node. It needs
	// Setup.Node.
	Node string
	// Kwok is the number of kwok's nodes. KwokNode may change a node, by its number from 0,
	// before it is created (labels, capacity).
	Kwok     int
	KwokNode func(i int, n *core.Node)
	// Flags are added to the command line of a program, by the program's name
	// ("kube-apiserver").
	Flags map[string][]string
}

// Cluster is a running Kubernetes. Its clients are in the group system:masters, which may do
// everything, and have no rate limit.
type Cluster struct {
	// Kubeconfig is a file for the flag --kubeconfig of programs.
	Kubeconfig string
	Config     *rest.Config
	Client     kubernetes.Interface
	// Dir is a directory of the cluster, on a tmpfs.
	Dir string

	Etcd, APIServer, ControllerManager, Scheduler *Program
	// Kwok is nil in a cluster without kwok's nodes.
	Kwok *Program
	// Containerd and Kubelet are nil in a cluster without a real node.
	Containerd *Program
	Kubelet    *Kubelet

	t         testing.TB
	flags     map[string][]string
	authority *authority
	programs  []*Program // in the order in which they were started
}

// Start starts a cluster and waits until it is ready: the API server answers, a pod can be created
// in the namespace default, and all nodes are Ready. The test runs inside a root (Inside); the
// cluster ends with the test.
func Start(t testing.TB, o Options) *Cluster {
	t.Helper()
	group, inside := os.LookupEnv(cgroupEnv)
	switch {
	case !inside:
		t.Fatal("cluster: Start is called inside a root of the test's own: call Inside first")
	case o.Node != "" && group == "":
		t.Fatal("cluster: a real node needs Setup{Node: true}")
	}
	// A short name, because addresses of unix sockets have at most 108 bytes.
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

// stop ends the programs at once, because nothing of the cluster is kept. Processes in pods end
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

// identities creates the authority, and the client of the test.
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
// "system:nodes", with a certificate, and returns its name.
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
	// Include the contents of files, because the kubeconfig may be copied to another place.
	if err := api.FlattenConfig(config); err != nil {
		return "", err
	}
	name := filepath.Join(c.Dir, file+".kubeconfig")
	return name, clientcmd.WriteToFile(*config, name)
}

// Wait repeats ask until it returns no error. When the time is over, it ends the test with the last
// error. what is the end of the sentence "waited ... for".
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
