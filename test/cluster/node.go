package cluster

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"
)

// The network of the real node. Its own address is on one end of a pair of devices of
// which the other end has no peer: a kubelet takes no address of the loopback device.
const (
	nodeAddress = "192.0.2.10"
	nodeGateway = "192.0.2.1"
	podNetwork  = "10.244.7.0/24"
)

// Places of a node, which are those of any: they are the root's own.
const (
	kubeletDir       = "/var/lib/kubelet"
	kubeletEtc       = "/etc/kubernetes"
	containerdEtc    = "/etc/containerd/config.toml"
	containerdDir    = "/var/lib/containerd"
	containerdSocket = "/run/containerd/containerd.sock"
	networkEtc       = "/etc/cni/net.d"
)

// node makes the root a node of the cluster.
func (c *Cluster) node(name string) error {
	if err := c.machine(); err != nil {
		return err
	}
	c.Containerd = c.program(runtimeReady, "containerd", "--config="+containerdEtc)
	if err := c.Containerd.Start(); err != nil {
		return err
	}
	for image, program := range map[string]string{Pause: "pause", Workload: "workload"} {
		c.Image(image, filepath.Join(programDir, program))
	}
	get, err := c.getter()
	if err != nil {
		return err
	}
	if c.Kubelet, err = c.kubelet(name, func() error { return get("http://127.0.0.1:10248/healthz") }); err != nil {
		return err
	}
	if err := c.Kubelet.Start(); err != nil {
		return err
	}
	return wait("node "+name+" to be Ready", 2*time.Minute, c.Kubelet.Ready)
}

// machine prepares the root: its network, the file systems that containers need, and the
// configuration of the container runtime.
func (c *Cluster) machine() error {
	for _, args := range [][]string{
		{"link", "add", "node0", "type", "veth", "peer", "name", "world0"},
		{"address", "add", nodeAddress + "/24", "dev", "node0"},
		{"address", "add", service + "/32", "dev", "lo"},
		{"link", "set", "node0", "up"},
		{"link", "set", "world0", "up"},
		{"route", "add", "default", "via", nodeGateway, "dev", "node0"},
	} {
		run(c.t, append([]string{"ip"}, args...)...)
	}
	// A volume that is to show later mounts inside a container is looked for on a shared
	// mount, as systemd makes the root of a machine.
	if err := syscall.Mount("", "/", "", syscall.MS_SHARED|syscall.MS_REC, ""); err != nil {
		return fmt.Errorf("sharing the mounts of the root: %w", err)
	}
	// The root is an overlay, and one overlay cannot have another one's as its upper.
	for _, dir := range []string{containerdDir, kubeletDir} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
		if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "mode=755"); err != nil {
			return fmt.Errorf("tmpfs on %s: %w", dir, err)
		}
		if err := syscall.Mount("", dir, "", syscall.MS_SHARED, ""); err != nil {
			return fmt.Errorf("sharing %s: %w", dir, err)
		}
	}
	network, err := json.MarshalIndent(map[string]any{
		"cniVersion": "1.0.0", "name": "pods",
		"plugins": []any{map[string]any{
			"type": "ptp", "ipMasq": false,
			"ipam": map[string]any{
				"type": "host-local", "ranges": [][]map[string]string{{{"subnet": podNetwork}}},
				"routes": []map[string]string{{"dst": "0.0.0.0/0"}},
			},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	for name, text := range map[string]string{
		containerdEtc:                    containerdConfig,
		networkEtc + "/10-pods.conflist": string(network),
	} {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// containerdConfig is for containerd 1.6, the one of Debian 12. Control groups are as
// the kubelet's: made by hand, without systemd. There may be none for huge pages; and
// root itself may lack the right to spare a process from the want of memory more than
// it is spared itself (CAP_SYS_RESOURCE), where a machine is a guest with few rights.
const containerdConfig = `version = 2
root = "` + containerdDir + `"
state = "/run/containerd"

[grpc]
  address = "` + containerdSocket + `"

[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "` + Pause + `"
  disable_hugetlb_controller = true
  restrict_oom_score_adj = true
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "/usr/lib/cni"
    conf_dir = "` + networkEtc + `"
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "overlayfs"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
`
